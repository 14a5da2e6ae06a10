// The encoder and the heads of an AgentNetwork on a GPU, for learning: fused layers in place of convolutions and of a
// product for each head. They compute what network.cpp defines, in float32 or bfloat16 products.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "agents/network.h"

namespace engram {

class GpuEncoder {
 public:
  // Whether the kernels take it: float32 parameters on a GPU, a layer of at most 1,024 outputs.
  static bool takes(const torch::Tensor& observation_MX, const torch::Tensor& weight);

  // observation [M, elements], uint8 (divided by 255) or float32.
  GpuEncoder(const torch::Tensor& observation_MX, torch::ScalarType dtype);

  // Both give [M, D]. The small images' convolutions are products with their dense matrices.
  torch::Tensor image(const std::vector<std::int64_t>& shape, torch::nn::Conv2d convolution1,
                      torch::nn::Conv2d convolution2, torch::nn::Linear linear) const;
  torch::Tensor vector(torch::nn::Linear linear) const;

 private:
  torch::Tensor input_MP_;
};

// Whether the kernels take heads of this form on these features.
bool gpu_heads_take(const torch::Tensor& features, const HeadImpl::Layers& head);
// features [..., D] -> for each head float32 [..., A rounded up to a multiple of 8]; of the targets without gradient.
struct GpuHeads {
  std::vector<torch::Tensor> learning, targets;
};
GpuHeads gpu_heads(const torch::Tensor& features, const std::vector<HeadImpl::Layers>& learning,
                   const std::vector<HeadImpl::Layers>& targets);

}  // namespace engram
