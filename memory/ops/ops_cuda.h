// The steps of ops.h as one kernel each, and fast weights over whole sequences by kernels. Where engram is built
// without CUDA nothing is supported.
#pragma once

#include <torch/torch.h>

#include "base/dropout.h"
#include "base/support.h"
#include "memory/ops/ops.h"

namespace engram::cuda {

// The rules of kernels/fast_weights/delta_rule/delta_rule.h over whole sequences, from a state of zeros: o [B, T, H, D]
// from query, key and value [B, T, H, D] and write strengths [B, T, H] of one type, log_decay float32 [B, T, H]
// (undefined: none). Differentiable once, to all of them. Steps after the lengths are not read, and zero in the output.
struct ChunkedFastWeights {
  bool delta;
  double scale;  // of o
  torch::Tensor query_BTHD, key_BTHD, value_BTHD, write_BTH, log_decay_BTH, lengths_B;
};
// Of tensors with such shapes.
Support supports_chunked_fast_weights(torch::Device device, torch::ScalarType dtype);
torch::Tensor chunked_fast_weights(const ChunkedFastWeights& in);

// Whether these states and inputs are for the kernel of a step, and the step: query, key and value [B, H, D], write
// strengths [B, H], log_decay [B, H] (undefined: none).
Support supports_fast_weight_step(const torch::Tensor& query_BHD, const torch::Tensor& state_BHDD);
torch::Tensor fast_weight_step(bool delta, const torch::Tensor& query_BHD, const torch::Tensor& key_BHD,
                               const torch::Tensor& value_BHD, const torch::Tensor& write_BH,
                               const torch::Tensor& log_decay_BH, const torch::Tensor& state_BHDD);

// Whether kernels/attention/attention.h takes these tensors, and WindowStepPlan::attend by it. All slots of the ring
// count: a slot that no step has filled has no weight, but an index of its own in what is dropped.
Support supports_attention_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                                const torch::Tensor& value_BHV, const KeyValueRing& ring);
torch::Tensor attention_step(const torch::Tensor& query_BHK, const torch::Tensor& key_BHK,
                             const torch::Tensor& value_BHV, const torch::Tensor& position_B, const KeyValueRing& ring,
                             const DropoutKey& weight_dropout);

}  // namespace engram::cuda
