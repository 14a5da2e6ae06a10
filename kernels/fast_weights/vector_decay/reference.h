// The sum rule with a decay for each key channel in double precision on the CPU, element by element: what the kernels
// are tested against. Formula and dimensions as in vector_decay.h.
#pragma once

#include <vector>

namespace engram {

struct VectorDecayReferenceInput {
  int batch, time, heads, key_width, value_width;
  double scale;
  std::vector<double> query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK;
  std::vector<int> length_B;
};

// Zero from length_B on.
std::vector<double> vector_decay_reference(const VectorDecayReferenceInput& input);

struct VectorDecayReferenceGradient {
  std::vector<double> query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK;
};
// The gradient of sum(output_gradient o), by the recurrence of S's gradient; no element of output_gradient behind a
// row's length is used.
VectorDecayReferenceGradient vector_decay_reference_backward(const VectorDecayReferenceInput& input,
                                                             const std::vector<double>& output_gradient_BTHV);

struct VectorDeltaReference {
  std::vector<double> output_BTHV, error_BTHV;
};
// By the delta rule; zero from length_B on.
VectorDeltaReference vector_delta_reference(const VectorDecayReferenceInput& input,
                                            const std::vector<double>& strength_BTH);
// The gradient of sum(output_gradient o) by u, of which everything after it is made.
std::vector<double> vector_delta_reference_backward(const VectorDecayReferenceInput& input,
                                                    const std::vector<double>& strength_BTH,
                                                    const std::vector<double>& output_gradient_BTHV);

}  // namespace engram
