// Fast weights (memory/ops/fast_weight_ops.h) on a CPU in float32 (nn/cpu/kernels.h): step after step with the state in
// a processor's first cache, which is less arithmetic than whole chunks, and no copies of them.
#pragma once

#include <torch/torch.h>

#include <utility>

namespace engram::cpu {

struct FastWeightsInput {
  bool delta;    // else the sum rule
  double scale;  // of what is read
  torch::Tensor query_BTHK, key_BTHK;
  torch::Tensor value_BTHV, write_BTH;  // write strengths: 0 behind the rows' lengths
  torch::Tensor log_decay_BTHX;         // X = 1 or K, 0 behind the lengths; undefined: nothing decays
  torch::Tensor state_BHKV;             // before the first step
};

// The output [B, T, H, V] and the state after the last step, of tensors that nn/cpu/layers.h takes. Differentiable
// once.
std::pair<torch::Tensor, torch::Tensor> fast_weights(const FastWeightsInput& input);

}  // namespace engram::cpu
