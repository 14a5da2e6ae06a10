// The memory of memory/backbones/fast_weights/fast_weights.h as operations: over whole sequences, differentiable and
// parallel in time, and one step, in place on its state. LibTorch's operations and, where this says so, kernels;
// without a wait for the device and with shapes that depend on no values, so that a CUDA graph may capture them.
//
// Shapes: B batch, T time, H heads, K key width, V value width. Any floating dtype; computed in float32 at least. The
// state may be in a wider dtype than the rest, and keeps it. Row b takes the steps t < lengths_B[b]; inputs after them
// must be finite and influence no valid output and no state.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "base/support.h"
#include "memory/backbones/fast_weights/fast_weights.h"

namespace engram {

// Steps that are computed at once. With a decay per channel every pair of them has a ratio of decays of its own in each
// channel, hence the shorter chunks.
inline constexpr std::int64_t kFastWeightChunk = 64, kVectorDecayChunk = 16;

struct FastWeightRule {
  bool delta = false;  // else the sum rule, and gated_sum, which is a sum whose decay is 1 - b
  AttentionNorm attention_norm = AttentionNorm::kNone;
  bool log_write = false;  // write strengths are given as logarithms, without a bound; of the sum rule, kAtLeastOne
};

// Of T steps [B, T, ...] or of one step [B, ...].
struct FastWeightInput {
  torch::Tensor query, key;  // [..., H, K]
  torch::Tensor value;       // [..., H, V]
  torch::Tensor write;       // [..., H]: write strengths b >= 0 (0 .. 2 with the delta rule), or their logarithms
  torch::Tensor log_decay;   // [..., H, 1] or [..., H, K]: log a <= 0; undefined: a = 1
};

// All zero: nothing is remembered. With log_write S and z are stored divided by exp(m), where m_t = max(0, log a_t +
// m_{t-1}, log b_t), which keeps them from overflowing; log_write takes one decay per head.
struct FastWeightState {
  torch::Tensor weights_BHKV;  // S
  torch::Tensor key_sum_BHK;   // z; undefined without an attention norm
  torch::Tensor log_scale_BH;  // m; undefined without log_write
};

struct FastWeightResult {
  torch::Tensor output_BTHV;
  FastWeightState state;  // of row b after lengths_B[b] steps
};

// With S_t after FastRule, and z_t = a_t z_{t-1} + b_t k_t (sum) or a_t z_{t-1} + k_t (delta, which then also divides
// its prediction k_t^T a_t S_{t-1} by a_t z_{t-1} . k_t):
//   o_t = S_t^T q_t / sqrt(K)                                         (kNone)
//   o_t = S_t^T q_t / (z_t . q_t + 1e-6)                              (kSum; 1e-6 also in the prediction)
//   o_t = S_t^T q_t / sqrt(K) / max(|z_t . q_t| / sqrt(K), 1)         (kAtLeastOne)
// The delta rule (Schlag et al. 2021) without decay and norm is S_t = S_{t-1} + b_t k_t (v_t - k_t^T S_{t-1}).
// By chunks, of the delta rule with the UT transform (Yang et al. 2024, equations 8 to 11; in equation 10 the sign
// before tril is that of their listing, I + tril(...)): every product of decays is the exponential of a difference of
// cumulative logarithms that is not above 0.
FastWeightResult fast_weights(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state,
                              const torch::Tensor& lengths_B);

// What is read is multiplied with, before an attention norm: 1 / sqrt(K), or 1 where the norm has no need of it.
double read_scale(AttentionNorm norm, std::int64_t key_width);

// Whether kernels/fast_weights/delta_rule or, with a decay for each key channel, kernels/fast_weights/vector_decay can
// compute this rule over fresh sequences, and what keeps the former from a step of them besides. decay_channels: 0
// without a decay, 1, or K.
Support supports_fast_weights(const FastWeightRule& rule, std::int64_t decay_channels, std::int64_t key_width,
                              std::int64_t value_width);
Support supports_fast_weight_step(const FastWeightRule& rule, std::int64_t decay_channels, std::int64_t key_width,
                                  std::int64_t value_width);

// Logarithms of write strengths without a bound as write strengths and decays of at most 1, over fresh sequences: those
// of a memory that is kept divided by e^m (FastWeightState), in whose scale the 1 of kAtLeastOne is e^-m. As m changes
// no answer it counts as a constant, with which gradients are exact (kernels/fast_weights/passes/README.md).
struct ScaledWrites {
  FastWeightInput input;  // the given one but for `write` and `log_decay`, which are in float32 at least (and above
                          // their limits by roundings in double)
  torch::Tensor one_BTH1;
};
ScaledWrites scaled_writes(const FastWeightInput& input);

// The output of fast_weights() alone, from a state of zeros, by the kernels: on a GPU, of tensors whose type of
// products (nn/device/autocast.h) is float32 or bfloat16, which is then that of the memory's; with a decay for each key
// channel that is float32. Differentiable once.
Support supports_fresh_fast_weights(const FastWeightRule& rule, const FastWeightInput& input);
torch::Tensor fresh_fast_weights(const FastWeightRule& rule, const FastWeightInput& input,
                                 const torch::Tensor& lengths_B);

// Returns o [B, H, V]; writes the new state into the tensors of `state`. Without gradients. On a GPU by a kernel where
// it can and the state is float32.
torch::Tensor fast_weight_step(const FastWeightRule& rule, const FastWeightInput& input, const FastWeightState& state);
// The same by LibTorch's operations on any device.
torch::Tensor plain_fast_weight_step(const FastWeightRule& rule, const FastWeightInput& input,
                                     const FastWeightState& state);

}  // namespace engram
