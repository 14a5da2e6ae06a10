// The passes of a mixer of fast weights in double precision on the CPU: maths.h, answer_maths.h and walk.h with one
// lane a head, whose own reference is LibTorch's differentiation of the definition
// (tests/memory/fused/fast_weight_passes.cpp) and, of what a window takes part in, plain formulas
// (tests/kernels/fast_weights/fast_weight_passes_window.cpp). Tensors are contiguous and without padding.
#pragma once

#include <vector>

#include "kernels/fast_weights/passes/answer_maths.h"
#include "kernels/fast_weights/passes/walk.h"

namespace engram::fast_weight_passes {

using Numbers = std::vector<double>;

struct FeaturesReference {
  int batch, steps, heads;
  FeaturePart part[kParts];  // dropouts with a clock on the CPU
  Numbers projected;         // [B, T, 3, H, C]
  Numbers convolution;       // [3 H C, 4]; empty: none
  Numbers bias;              // of the convolution, [3 H C]; empty: none
  Numbers directions;        // of Map::kFavor, [F, C]

  // Of a head in the features: of the widest part, the channel of ones included.
  int features_width() const;
};
// [B, T, 3, H, features_width], zero behind a part's features. `left`: becomes the projection as dropout leaves it;
// `window_rows`: of queries and keys that drop first behind a convolution what a window reads, [B, T, 2, H, C].
Numbers features_reference(const FeaturesReference& input, Numbers* left = nullptr, Numbers* window_rows = nullptr);
// What a window makes of the projection's parts that drop first, [B, T, 3, H, C], or of its rows, [B, T, 2, H, C]; and
// of the third part's features, [B, T, H, C]; empty: none.
struct WindowGradient {
  Numbers projected, value, rows;
};
struct FeaturesReferenceGradient {
  Numbers projected, convolution, bias;
};
// input: as the forward pass left it.
FeaturesReferenceGradient features_reference_backward(const FeaturesReference& input, const Numbers& d_features,
                                                      const WindowGradient& window = {});

struct StrengthsReference {
  StrengthKind kind;
  int steps;  // of a sequence; of Write::kExponential
  int heads;
  Numbers write_logits, decay_logits;  // [rows, H]; empty: none
  Numbers bias_H, log_rate_H;          // of LogDecay::kScalar
  Numbers write_bias_H;                // empty: none
};
struct StrengthsReferenceOutput {
  Numbers write, log_decay;  // [rows, H]
  Numbers one;               // [rows, H], of Write::kExponential
};
StrengthsReferenceOutput strengths_reference(const StrengthsReference& input, int rows);
struct StrengthsReferenceGradient {
  Numbers write_logits, decay_logits, bias_H, log_rate_H, write_bias_H;
};
// d: of write and log_decay; the scale of Write::kExponential is a constant.
StrengthsReferenceGradient strengths_reference_backward(const StrengthsReference& input,
                                                        const StrengthsReferenceOutput& d);

struct AnswerReference {
  AnswerKind kind;
  Numbers answer;  // [rows, H, C], with an answer norm [rows, H, C + 1]
  Numbers gate;    // [rows, H, C]; empty: none
  Numbers weight;  // [C]
  Numbers one;     // of AnswerNorm::kAtLeastOne, [rows, H]; empty: 1
  Numbers skip_H;  // with it the answer is answer + skip_scale skip_H values; empty: none
  double skip_scale;
  Numbers values;         // [rows, H, C]
  Numbers window = {};    // of a mix, [rows, H, C]
  Numbers mix_gate = {};  // [rows, H, C], of Mix::kScalar [rows, H, 2]; empty: none
};
Numbers answer_reference(const AnswerReference& input);  // [rows, H, C]
struct AnswerReferenceGradient {
  Numbers answer, gate, weight, skip_H, values, window, mix_gate;
};
AnswerReferenceGradient answer_reference_backward(const AnswerReference& input, const Numbers& d_out);

}  // namespace engram::fast_weight_passes
