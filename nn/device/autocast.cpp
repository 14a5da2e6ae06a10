#include "nn/device/autocast.h"

#include <ATen/autocast_mode.h>

namespace engram {

namespace autocast = at::autocast;

ComputeIn::ComputeIn(torch::Device device, torch::ScalarType dtype) {
  const bool casts = dtype == torch::kBFloat16 || dtype == torch::kHalf;
  if (!device.is_cuda()) return;
  casts_before_ = autocast::is_autocast_enabled(at::kCUDA);
  if (!casts && !casts_before_) return;
  changed_ = true;
  dtype_before_ = autocast::get_autocast_dtype(at::kCUDA);
  autocast::set_autocast_enabled(at::kCUDA, casts);
  if (casts) autocast::set_autocast_dtype(at::kCUDA, dtype);
  autocast::increment_nesting();
}

ComputeIn::~ComputeIn() {
  if (!changed_) return;
  if (autocast::decrement_nesting() == 0) autocast::clear_cache();
  autocast::set_autocast_enabled(at::kCUDA, casts_before_);
  autocast::set_autocast_dtype(at::kCUDA, dtype_before_);
}

torch::ScalarType product_dtype(torch::Device device, torch::ScalarType dtype) {
  return device.is_cuda() && dtype != torch::kFloat64 && autocast::is_autocast_enabled(at::kCUDA)
             ? autocast::get_autocast_dtype(at::kCUDA)
             : dtype;
}

}  // namespace engram
