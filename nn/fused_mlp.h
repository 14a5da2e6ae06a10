// Layers and heads on a GPU: linear maps with bias and relu in bfloat16 or float32 products, each with a backward pass
// of its own. Rows have P channels, the number of channels rounded up to a multiple of 16, the added ones zero;
// parameters and their gradients are float32.
#pragma once

#include <torch/torch.h>

#include <vector>

namespace engram::fused {

// [relu](W x + b): x [M, P_in] -> [M, P_out] in x's type.
torch::Tensor linear(const torch::Tensor& x_MP, const torch::Tensor& weight_OI, const torch::Tensor& bias_O, bool relu);

// Maps D -> hidden -> hidden -> A with relu between. The hidden width is a multiple of 8 and at most 1,024 / heads.
struct HeadWeights {
  torch::Tensor weight1_ID, bias1_I;
  torch::Tensor weight2_II, bias2_I;
  torch::Tensor weight3_AI, bias3_A;
};
constexpr int kMaxHeadColumns = 1024;  // of all learning heads' first hidden layers together

// Several heads on the same rows: x [M, P] -> for each head float32 [M, A rounded up to a multiple of 8], A numbers and
// then zeros; the targets' outputs have no gradient.
struct HeadOutputs {
  std::vector<torch::Tensor> learning, targets;
};
HeadOutputs heads(const torch::Tensor& x_MP, const std::vector<HeadWeights>& learning,
                  const std::vector<HeadWeights>& targets);

}  // namespace engram::fused
