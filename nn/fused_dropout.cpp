#include "nn/fused_dropout.h"

#include <vector>

#include "kernels/block/elementwise.h"
#include "nn/cuda_support.h"

namespace engram::fused {
namespace {

using torch::Tensor;

Tensor dropout_on_gpu(const Tensor& x, const DropoutPlace& place) {
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
               .dropout = place,
               .x = x_MC.data_ptr(),
               .residual = nullptr},
              y.data_ptr(), current_stream());
  return y.narrow(-1, 0, channels);
}

class DropoutFunction : public torch::autograd::Function<DropoutFunction> {
 public:
  static Tensor forward(torch::autograd::AutogradContext* context, const Tensor& x, const Tensor& seed_tick,
                        std::int64_t place_index, std::int64_t threshold) {
    context->saved_data["seed_tick"] = seed_tick;
    context->saved_data["place"] = place_index;
    context->saved_data["threshold"] = threshold;
    return dropout_on_gpu(x, place_of(seed_tick, place_index, threshold));
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradient) {
    const DropoutPlace place = place_of(context->saved_data["seed_tick"].toTensor(),
                                        context->saved_data["place"].toInt(), context->saved_data["threshold"].toInt());
    return {dropout_on_gpu(gradient[0], place), {}, {}, {}};
  }

 private:
  static DropoutPlace place_of(const Tensor& seed_tick, std::int64_t place, std::int64_t threshold) {
    return {seed_tick.data_ptr<std::int64_t>(), static_cast<std::uint32_t>(place),
            static_cast<double>(threshold) / 65536};
  }
};

}  // namespace

Tensor dropout(const Tensor& x, const Tensor& seed_tick, const DropoutPlace& place) {
  return DropoutFunction::apply(x, seed_tick, static_cast<std::int64_t>(place.place),
                                static_cast<std::int64_t>(place.threshold));
}

}  // namespace engram::fused
