// The sum rule and the delta rule with a decay for each key channel over fresh sequences on a GPU, by
// kernels/fast_weights/vector_decay. Where engram is built without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/support.h"

namespace engram::cuda {

struct VectorDecayInput {
  bool delta;    // else the sum rule
  double scale;  // of what is read
  torch::Tensor query_BTHK, key_BTHK;
  torch::Tensor value_BTHV, write_BTH;  // write strengths
  torch::Tensor log_decay_BTHK;         // at most 0
};

// Whether the kernels take these tensors: on one GPU, floating point, of the shapes above with no dimension of 0, K and
// V at most 128.
Support supports_vector_decay(const VectorDecayInput& input);

// What is read, [B, T, H, V] in float32, zero behind lengths_B; the state is float32, too. Differentiable once. Throws
// c10::Error with the reason where the kernels do not take the tensors.
torch::Tensor vector_decay(const VectorDecayInput& input, const torch::Tensor& lengths_B);

}  // namespace engram::cuda
