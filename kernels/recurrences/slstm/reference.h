// sLSTM by its plain equations, without a stabiliser: exp(a_i) and sigmoid(a_f) as they are, in double precision.
#pragma once

#include <vector>

namespace engram {

struct SlstmReferenceInput {
  int batch, time, heads, width;
  std::vector<double> gates_BTHX;  // X = 4 K: input, forget, candidate, output gate
  std::vector<double> recurrent_HKX;
  std::vector<int> length_B;
};

// h [B, T, H, K]; zero behind a row's length.
std::vector<double> slstm_reference(const SlstmReferenceInput& input);

// The gradient of `gates`; zero behind a row's length.
std::vector<double> slstm_reference_backward(const SlstmReferenceInput& input,
                                             const std::vector<double>& h_gradient_BTHK);

}  // namespace engram
