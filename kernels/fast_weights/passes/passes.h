// What a mixer with a fast-weight memory (kernels/fast_weights/delta_rule) computes before and after it, as kernels:
// features of queries, keys and values, with a short convolution before their maps; write strengths and decays; and
// the answer with its norms and gate, or its mix with a window's; each with its gradients. maths.h and answer_maths.h
// have the formulas, walk.h the ways through the rows.
//
// A head has C channels, stored as `padded` elements, and its features as `features_padded`, both multiples of 8 and at
// most 128; what follows channels or features is zero in the inputs and is written as zero. Projections are rows
// `projected_stride` apart (a multiple of 8), their gradients have the same layout, and each pass writes its own
// columns of them, padding included. rows * H < 2^31. Rows, features and write strengths are float or bfloat16
// (`dtype`) and 16-byte aligned, all else is float; contiguous but for projections. Computed in float. Scratch: 16-byte
// aligned, any contents. All work is queued on `stream`; the same input gives the same bits. Errors: std::runtime_error
// for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/cuda_support.h"
#include "kernels/fast_weights/passes/answer_maths.h"
#include "kernels/fast_weights/passes/walk.h"

namespace engram::fast_weight_passes {

struct Features {
  FeatureShape shape;
  Dtype dtype;
  FeaturePart part[kParts];  // the same channels in all
  void* projected;           // the first query's column; what drops first becomes what dropout leaves of it, but
                             // with a convolution
  const float* convolution;  // [3 H C, 4], of channel part * H * C + head * C + c; null: none. Behind it either nothing
                             // drops first, or queries and keys do
  const float* bias;         // of the convolution, [3 H C]; null: none
  const float* directions;   // of Map::kFavor, [F, C]
  // Of queries and keys that drop first behind a convolution: what it and dropout leave of them, as a window reads it,
  // [rows, 2, H, padded]. The forward pass writes all of it; it overlaps nothing else. Else null.
  void* window_rows = nullptr;
};
// features [B, T, 3, H, features_padded]
void features_forward(const Features& input, void* features, cudaStream_t stream);
std::size_t features_backward_scratch_bytes(const Features& input);
struct FeaturesGradient {
  const void* features;
  const void* window_value;  // added to that of the third part's features, [rows, H, padded]; null: none. Behind a
                             // convolution there is none without window_rows
  const void* window_rows = nullptr;  // that of Features::window_rows, [rows, 2, H, padded]; null where those are
};
// The gradients of queries, keys and values, and in `scratch` what the sum makes the convolution's of. `input` as the
// forward pass left it; its window_rows are not read. Without a convolution `d_projected` holds in the columns of a
// part that drops first what a window makes of them, which is added to; with one it is written alone, and overlaps
// nothing.
void features_backward(const Features& input, const FeaturesGradient& gradient, void* d_projected, void* scratch,
                       cudaStream_t stream);
GradientSum convolution_sum(const Features& input, const void* scratch, float* d_convolution);
GradientSum convolution_bias_sum(const Features& input, const void* scratch, float* d_bias);

// Columns of a projection that hold the logits: the write strengths', then the decays', H each where there are any,
// and padding to a multiple of 8.
int logit_columns(const StrengthKind& kind, int heads);

struct Strengths {
  StrengthKind kind;
  std::int64_t rows;
  int steps;  // of a sequence, a divisor of the rows; of Write::kExponential
  int heads;
  Dtype dtype;
  std::int64_t projected_stride;
  const void* logits;   // the projection's first logit column; not read where there is none
  const float* bias_H;  // of LogDecay::kScalar, as is the next
  const float* log_rate_H;
  const float* write_bias_H;  // added to the write logits; null: none
};
// write [rows, H]; log_decay [rows, H], where gives_log_decay(); one [rows, H], of Write::kExponential: 1 in the scale
// of the memory. Both may be null elsewhere. A sequence's steps reach the later ones and no other.
void strengths_forward(const Strengths& input, void* write, float* log_decay, float* one, cudaStream_t stream);
std::size_t strengths_backward_scratch_bytes(const Strengths& input);
// Where there are logits. write: as strengths_forward wrote it, read with Write::kExponential, whose scale counts as a
// constant (README.md). d_log_decay: of kScalar and kOfWrite. The sums: of kScalar, and of a write bias.
void strengths_backward(const Strengths& input, const void* write, const void* d_write, const float* d_log_decay,
                        void* d_logits, void* scratch, cudaStream_t stream);
std::array<GradientSum, 2> strengths_sums(const Strengths& input, const void* scratch, float* d_bias_H,
                                          float* d_log_rate_H);
GradientSum write_bias_sum(const Strengths& input, const void* scratch, float* d_write_bias_H);

// Columns of a projection that hold an output gate, H * padded.
int gate_columns(AnswerGate gate, int heads, int padded);
// And a mix's: of Mix::kVector H * padded, of Mix::kScalar those of the memory and the window of every head in turn and
// padding to a multiple of 8, and else none.
int mix_columns(Mix mix, int heads, int padded);

struct Answer {
  AnswerKind kind;
  std::int64_t rows;
  int heads, padded, features_padded;
  Dtype dtype;
  std::int64_t projected_stride;
  const void* gate;      // the projection's first column of the output gate; not read where there is none
  const void* mix_gate;  // and of the mix's
  const void* answer;    // [rows, H, features_padded]
  const float* weight;   // [C]
  const float* one;      // of AnswerNorm::kAtLeastOne, [rows, H], > 0: 1 in the memory's scale; null: 1
  // With skip_H, of AnswerNorm::kNone without a mix, the answer is answer + skip_scale skip_H values; null: none.
  const float* skip_H;
  float skip_scale;
  const void*
      values;  // rows values_stride elements apart (a multiple of 8), [H, features_padded] each, 16-byte aligned
  std::int64_t values_stride;
  const void* window;  // of a mix, [rows, H, padded]
};
// out [rows, H, padded]
void answer_forward(const Answer& input, void* out, cudaStream_t stream);
std::size_t answer_backward_scratch_bytes(const Answer& input);
struct AnswerGradient {
  const void* out;  // [rows, H, padded]
  void* gate;       // the projection's gradient at the first column of the output gate
  void* mix_gate;   // and of the mix's
  void* answer;
  void* window;  // of a mix
};
// All but the gradients of the weight, the skip and the values, and in `scratch` what the sums make the first two of.
void answer_backward(const Answer& input, const AnswerGradient& gradient, void* scratch, cudaStream_t stream);
GradientSum answer_sum(const Answer& input, const void* scratch, float* d_weight);
GradientSum skip_sum(const Answer& input, const void* scratch, float* d_skip_H);
// Adds what the skip makes of the answer's gradient to `d_values`, which has the layout of the values.
void add_skipped(const Answer& input, const void* d_answer, void* d_values, cudaStream_t stream);

}  // namespace engram::fast_weight_passes
