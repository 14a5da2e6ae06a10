// Head: features as some numbers, of which each means an action or else what a learner says, on LibTorch's operations;
// several heads on the same features also as fused layers on a GPU (nn/fused/heads/heads.h).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

#include "base/support.h"

namespace engram {

// D -> hidden -> hidden -> A, with relu between: A outputs.
class HeadImpl : public torch::nn::Module {
 public:
  // Hidden layers: weights U(+-1/sqrt(outputs of the layer)), as the reference has it (it takes the first dimension of
  // a weight [out, in] for the fan-in), bias 0.1. Last layer: weights and bias U(+-last_layer_bound).
  HeadImpl(std::int64_t width, std::int64_t hidden_width, std::int64_t outputs, double last_layer_bound);

  // By LibTorch's operations. The last layer computes in the parameters' type whatever the products before it are in
  // (autocast.h): its outputs are values and logits, of which bfloat16 would leave 8 bits. The fused layers round its
  // operands and keep its sums in float32.
  torch::Tensor forward(const torch::Tensor& hidden);

  struct Layers {
    torch::nn::Linear hidden1, hidden2, output;
  };
  Layers layers() const { return {hidden1_, hidden2_, output_}; }

 private:
  torch::nn::Linear hidden1_, hidden2_, output_;
};
TORCH_MODULE(Head);

// Heads on the same features.
struct HeadGroup {
  std::vector<Head> learning, targets;

  // Whether outputs() may take the fused layers; and whether these are one kernel, on a GPU that is there.
  Support supports_kernels(torch::ScalarType dtype, torch::Device device) const;
  Support supports_one_kernel(torch::ScalarType dtype, torch::Device device) const;

  struct Outputs {
    std::vector<torch::Tensor> learning, targets;
  };
  // features [..., D] -> for each head [..., A]; where heads are computed together float32 [..., A or more], zeros
  // after the A numbers. The targets' have no gradient. On a GPU products are in `dtype`.
  Outputs outputs(const torch::Tensor& features, torch::ScalarType dtype) const;
};

}  // namespace engram
