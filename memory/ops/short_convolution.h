// A short causal convolution of each channel with what it still sees of the past.
#pragma once

#include <torch/torch.h>

#include <cstdint>

namespace engram {

// Causal and depthwise: y_t = sum over j < width of w_j * x_{t - width + 1 + j}, zeros before the episode; and with
// `bias` a bias. First weights of both: U(+-1 / sqrt(width)), LibTorch's of such a convolution.
class ShortConvolution : public torch::nn::Module {
 public:
  ShortConvolution(std::int64_t channels, std::int64_t width, bool bias = false);

  struct Output {
    torch::Tensor output_BTC;
    torch::Tensor state_BSC;  // the last S = width - 1 inputs of row b after its lengths_B[b] steps
  };
  Output forward(const torch::Tensor& x_BTC, const torch::Tensor& state_BSC, const torch::Tensor& lengths_B) const;
  // Writes the input into `state_BSC`. Without gradients.
  torch::Tensor step(const torch::Tensor& x_BC, torch::Tensor state_BSC) const;

  const torch::Tensor& weight_CW() const { return weight_CW_; }
  // Undefined without.
  const torch::Tensor& bias_C() const { return bias_C_; }

 private:
  // Of x [B, T + S, C], the last T.
  torch::Tensor convolve(const torch::Tensor& x) const;

  std::int64_t width_;
  torch::Tensor weight_CW_, bias_C_;
};

}  // namespace engram
