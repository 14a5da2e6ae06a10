// The passes of a mixer of fast weights in double precision on the CPU: maths.h and walk.h with one lane a head, whose
// own reference is LibTorch's differentiation of the definition (tests/memory/fused/fast_weight_passes.cpp). Tensors
// are contiguous and without padding.
#pragma once

#include <vector>

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
// [B, T, 3, H, features_width], zero behind a part's features.
Numbers features_reference(const FeaturesReference& input);
struct FeaturesReferenceGradient {
  Numbers projected, convolution, bias;
};
FeaturesReferenceGradient features_reference_backward(const FeaturesReference& input, const Numbers& d_features);

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
  Numbers values;  // [rows, H, C]
};
Numbers answer_reference(const AnswerReference& input);  // [rows, H, C]
struct AnswerReferenceGradient {
  Numbers answer, gate, weight, skip_H, values;
};
AnswerReferenceGradient answer_reference_backward(const AnswerReference& input, const Numbers& d_out);

}  // namespace engram::fast_weight_passes
