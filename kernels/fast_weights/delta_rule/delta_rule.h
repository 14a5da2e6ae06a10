// The delta rule and the sum rule, with or without a decay, over whole sequences (chunked, for learning) and over one
// step (for acting).
//
// For every row b and head h, with state S in R^{K x V}, zero before the first step of a sequence, and a decay
// a_t = exp(log_decay_t), or 1 without:
//   e_t = v_t - a_t S_{t-1}^T k_t          prediction error; of the sum rule: v_t
//   S_t = a_t S_{t-1} + beta_t k_t e_t^T   write
//   o_t = scale * S_t^T q_t                read after the write
// for t < length_B[b]. Outputs and gradients at t >= length are zero; inputs there are never read.
// Source: Yang et al., "Parallelizing Linear Transformers with the Delta Rule over Sequence Length" (2024), equations
// 8-11, and "Gated Delta Networks" (2025) for the decay; README.md beside this file has the form used here and the
// derivation of the backward pass. Where rows and heads are few and sequences long, these are cut into segments whose
// chunks are walked beside each other.
//
// Dimensions: B rows, T steps, H heads, D head width = K = V, even, 2 <= D <= 128 (padded inside to 64 or 128).
// Element types: q, k, v, beta, output and their gradients are all float or all bfloat16 (`dtype`); the state of a step
// is float, and so are log_decay and its gradient: a memory over many steps has the sum of their logarithms, whose
// rounding to bfloat16 would add up. log_decay is not above 0; -inf forgets everything.
// Sums are accumulated in float; float products are exact to float's rounding. RMS error over RMS, for keys of length 1
// and beta in [0, 2]: at most 1e-5 in float; in bfloat16 0.005 forward and 0.008 backward from width 16 on (0.014 at
// width 2), and 0.025 backward where all keys are alike or T is 1, where with a decay the forward pass has 0.012. The
// gradient of a decay is a difference of large sums, of what is read from a step on and of what was written from it on,
// each with the rounding of its own operands: 1e-4 in float, in bfloat16 0.025, and 0.08 where all keys are alike.
// Layout: [B, T, H, D] with D contiguous and heads D apart; q, k, v may be slices of one product: the rows (b, t) of
// q, k and v and of their gradients are `row_stride` elements apart (even, H * D to 2^24). All else is contiguous.
// Alignment: 4 bytes for bfloat16, 8 for float; 16 where D and row_stride allow it is faster.
// Aliasing: no output may overlap an input or another output. Scratch and saved buffers: 16-byte aligned, any contents.
// All work is queued on `stream`; nothing synchronises. The same input and number of segments give the same bits, and
// the shape alone decides on that number where it names none. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernels/common/cuda_support.h"

namespace engram {

struct DeltaRuleShape {
  int batch;
  int time;
  int heads;
  int width;
  int segments = 0;  // of a sequence, which are walked beside each other; 0: as many as pay (README.md, "In segments")
};

enum class FastWeightWrite { kDelta, kSum };

struct DeltaRuleInput {
  DeltaRuleShape shape;
  Dtype dtype;
  float scale;              // > 0
  std::int64_t row_stride;  // of q, k, v, in elements; H * D when contiguous
  const void* q_BTHD;
  const void* k_BTHD;
  const void* v_BTHD;
  const void* beta_BTH;
  const int* length_B;  // on the device, 0 <= length <= T; null: all T
  FastWeightWrite write = FastWeightWrite::kDelta;
  const float* log_decay_BTH = nullptr;  // null: no decay
};

struct DeltaRuleInputGradient {
  void* q_BTHD;  // q, k, v with the row_stride of the input
  void* k_BTHD;
  void* v_BTHD;
  void* beta_BTH;
  float* log_decay_BTH = nullptr;  // null: not wanted, or there is no decay
};

// Writes output [B, T, H, D], and to `saved` what the backward pass needs. The forward pass itself works there too: a
// caller without a backward pass may use the buffer anew for each call. The sizes hold for every rule.
std::size_t delta_rule_saved_bytes(const DeltaRuleShape& shape, Dtype dtype);
void delta_rule_forward(const DeltaRuleInput& input, void* output_BTHD, void* saved, cudaStream_t stream);

// `input` and `saved` as in the call of delta_rule_forward that this is the gradient of.
std::size_t delta_rule_backward_scratch_bytes(const DeltaRuleShape& shape, Dtype dtype);
void delta_rule_backward(const DeltaRuleInput& input, const void* saved, const void* output_gradient_BTHD,
                         const DeltaRuleInputGradient& input_gradient, void* scratch, cudaStream_t stream);

// One step of N rows: state_NHKV is updated in place, output_NHD is the read after the write. All contiguous; the state
// aligned to 16 bytes.
struct DeltaRuleStep {
  int rows;
  int heads;
  int width;
  Dtype dtype;
  float scale;
  const void* q_NHD;
  const void* k_NHD;
  const void* v_NHD;
  const void* beta_NH;
  float* state_NHKV;
  void* output_NHD;
  FastWeightWrite write = FastWeightWrite::kDelta;
  const float* log_decay_NH = nullptr;  // null: no decay
};
void delta_rule_step(const DeltaRuleStep& step, cudaStream_t stream);

}  // namespace engram
