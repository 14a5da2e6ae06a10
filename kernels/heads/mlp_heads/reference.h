// The heads in double precision on the CPU: what the kernels are tested against. Formulas and dimensions as in
// mlp_heads.h; matrices of x have D columns, those of the outputs A.
#pragma once

#include <functional>
#include <vector>

#include "kernels/heads/mlp_heads/mlp_heads.h"

namespace engram {

struct MlpHeadReferenceWeights {
  std::vector<double> weight1_ID, bias1_I, weight2_II, bias2_I, weight3_AI, bias3_A;
};

// Applied to every hidden unit and its gradient before the next product: the identity, or the rounding of a type.
using MlpHeadsRounding = std::function<double(double)>;

struct MlpHeadsReferenceOutput {
  std::vector<double> first_MI, second_MI, output_MA;
};
// One head.
MlpHeadsReferenceOutput mlp_heads_reference(const MlpHeadsShape& shape, const MlpHeadReferenceWeights& weights,
                                            const std::vector<double>& x_MD, const MlpHeadsRounding& round);

struct MlpHeadsReferenceGradient {
  std::vector<double> first_MI, second_MI, x_MD, bias1_I, bias2_I, bias3_A;
};
// One head's gradients of sum(output * d_output), where the hidden layers are not zero in `hidden`; x's is the head's
// share.
MlpHeadsReferenceGradient mlp_heads_reference_backward(const MlpHeadsShape& shape,
                                                       const MlpHeadReferenceWeights& weights,
                                                       const MlpHeadsReferenceOutput& hidden,
                                                       const std::vector<double>& d_output_MA,
                                                       const MlpHeadsRounding& round);

struct MlpHeadsReferenceWeightGradient {
  std::vector<double> weight1_ID, weight2_II, weight3_AI;
};
// The gradients of that head's weights, given those of its layers.
MlpHeadsReferenceWeightGradient mlp_heads_reference_weight_gradient(const MlpHeadsShape& shape,
                                                                    const std::vector<double>& x_MD,
                                                                    const MlpHeadsReferenceOutput& hidden,
                                                                    const std::vector<double>& d_output_MA,
                                                                    const MlpHeadsReferenceGradient& gradient);

}  // namespace engram
