#include "memory/ops/short_convolution.h"

#include <cmath>

#include "memory/ops/cpu_short_convolution.h"
#include "memory/ops/short_convolution_cuda.h"
#include "nn/cpu/layers.h"
#include "nn/device/plain_operations.h"

namespace engram {

using torch::Tensor;

ShortConvolution::ShortConvolution(std::int64_t channels, std::int64_t width, bool bias) : width_(width) {
  const double bound = 1 / std::sqrt(static_cast<double>(width));
  weight_CW_ = register_parameter("weight", torch::empty({channels, width}).uniform_(-bound, bound));
  if (bias) bias_C_ = register_parameter("bias", torch::empty({channels}).uniform_(-bound, bound));
}

Tensor ShortConvolution::convolve(const Tensor& x) const {
  if (cpu::takes(x) && cpu::takes(weight_CW_)) return cpu::short_convolution(x, weight_CW_, bias_C_);
  const std::int64_t steps = x.size(1) - width_ + 1;
  Tensor y = bias_C_;
  for (std::int64_t j = 0; j < width_; ++j) {
    const Tensor part = x.narrow(1, j, steps) * weight_CW_.select(1, j);
    y = y.defined() ? y + part : part;
  }
  return y;
}

ShortConvolution::Output ShortConvolution::forward(const Tensor& x_BTC, const Tensor& state_BSC,
                                                   const Tensor& lengths_B) const {
  const cuda::ShortConvolutionTensors given{x_BTC, state_BSC, weight_CW_, bias_C_, lengths_B};
  if (!PlainOperations::on() && cuda::supports_short_convolution(given)) return cuda::short_convolution(given);
  const Tensor all = torch::cat({state_BSC, x_BTC.to(state_BSC.scalar_type())}, 1);
  const Tensor kept_BS1 = (lengths_B.unsqueeze(1) + torch::arange(width_ - 1, lengths_B.options())).unsqueeze(2);
  return {convolve(all), all.gather(1, kept_BS1.expand({-1, -1, all.size(2)}))};
}

Tensor ShortConvolution::step(const Tensor& x_BC, Tensor state_BSC) const {
  const Tensor all = torch::cat({state_BSC, x_BC.to(state_BSC.scalar_type()).unsqueeze(1)}, 1);
  state_BSC.copy_(all.narrow(1, 1, width_ - 1));
  return convolve(all).squeeze(1);
}

}  // namespace engram
