#include "nn/fused/dropout.h"

#include <cstdint>
#include <vector>

#include "kernels/block/elementwise.h"
#include "nn/device/cuda_support.h"

namespace engram::cuda {
namespace {

using torch::Tensor;

Tensor dropout_on_gpu(const Tensor& x, const DropoutKey& key) {
  const std::int64_t channels = x.size(-1), stride = (channels + 15) / 16 * 16;
  Tensor x_MC = x.reshape({-1, channels});
  if (x_MC.stride(1) != 1 || x_MC.stride(0) < channels) x_MC = x_MC.contiguous();
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape.back() = stride;
  const Tensor y = torch::empty(shape, x.options().requires_grad(false));
  dropout_add({.rows = x_MC.size(0),
               .width = static_cast<int>(channels),
               .x_stride = x_MC.stride(0),
               .stride = static_cast<int>(stride),
               .dtype = kernel_dtype(x),
               .dropout = key,
               .x = x_MC.data_ptr(),
               .residual = nullptr},
              y.data_ptr(), current_stream());
  return y.narrow(-1, 0, channels);
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& seed_tick,
                        std::int64_t site, std::int64_t threshold) {
    context->saved_data["seed_tick"] = seed_tick;
    context->saved_data["site"] = site;
    context->saved_data["threshold"] = threshold;
    return dropout_on_gpu(x, key_of(seed_tick, site, threshold));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradient) {
    const DropoutKey key = key_of(context->saved_data["seed_tick"].toTensor(), context->saved_data["site"].toInt(),
                                  context->saved_data["threshold"].toInt());
    return {dropout_on_gpu(gradient[0], key), {}, {}, {}};
  }

 private:
  static DropoutKey key_of(const Tensor& seed_tick, std::int64_t site, std::int64_t threshold) {
    return {seed_tick.data_ptr<std::int64_t>(), static_cast<std::uint32_t>(site),
            static_cast<double>(threshold) / 65536};
  }
};

}  // namespace

Tensor dropout(const Tensor& x, const Tensor& seed_tick, const DropoutKey& key) {
  return DropoutFunction::apply(x, seed_tick, static_cast<std::int64_t>(key.site),
                                static_cast<std::int64_t>(key.threshold));
}

}  // namespace engram::cuda
