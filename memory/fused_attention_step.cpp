#include "memory/fused_attention_step.h"

#include <cmath>

#include "kernels/attention/attention.h"
#include "nn/cuda_support.h"
#include "nn/fused_support.h"

namespace engram::fused {

using torch::Tensor;

Support attention_step_support(std::int64_t key_width, std::int64_t value_width, torch::ScalarType dtype,
                               torch::Device device) {
  constexpr std::int64_t kMaxWidth = 128;
  if (Support own = device_support(dtype, device); !own) return own;
  if (value_width != key_width)
    return Support::no("values of width " + std::to_string(value_width) + " at keys of width " +
                       std::to_string(key_width));
  if (key_width % 2 != 0) return Support::no("head width " + std::to_string(key_width) + " is odd");
  return at_most("head width", key_width, kMaxWidth);
}

Tensor attention_step(const Tensor& query_BHK, const Tensor& key_BHK, const Tensor& value_BHV, const Tensor& position_B,
                      const Tensor& ring_key_BSHK, const Tensor& ring_value_BSHV) {
  const Tensor query = query_BHK.contiguous(), key = key_BHK.contiguous(), value = value_BHV.contiguous();
  const std::int64_t heads = query.size(1), width = query.size(2);
  const Tensor output_BHV = torch::empty_like(query);
  engram::attention_step({.rows = static_cast<int>(query.size(0)),
                          .heads = static_cast<int>(heads),
                          .width = static_cast<int>(width),
                          .dtype = kernel_dtype(query),
                          .scale = 1.0f / std::sqrt(static_cast<float>(width)),
                          .rotary_width = 0,
                          .head_stride = width,
                          .q = {query.data_ptr(), heads * width},
                          .k = {key.data_ptr(), heads * width},
                          .v = {value.data_ptr(), heads * width},
                          .position_N = position_B.data_ptr<std::int64_t>(),
                          .ring = {.dtype = kernel_dtype(ring_key_BSHK),
                                   .slots = static_cast<int>(ring_key_BSHK.size(1)),
                                   .key_BSHW = ring_key_BSHK.data_ptr(),
                                   .value_BSHW = ring_value_BSHV.data_ptr()},
                          .output_NHW = output_BHV.data_ptr()},
                         current_stream());
  return output_BHV;
}

}  // namespace engram::fused
