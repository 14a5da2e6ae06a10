// Elman network, GRU and LSTM by the plain equations of gated_rnn.h, in double precision.
#pragma once

#include <vector>

#include "kernels/recurrences/gated_rnn/gated_rnn.h"

namespace engram {

struct GatedRnnReferenceInput {
  GatedCell cell;
  int batch, time, width;
  std::vector<double> gates_BTX, recurrent_XD, candidate_bias_D;  // the bias: of the GRU
  std::vector<int> length_B;
  int linear = 0;

  int gates() const { return gates_of(cell); }
};

// h [B, T, D]; zero behind a row's length.
std::vector<double> gated_rnn_reference(const GatedRnnReferenceInput& input);

struct GatedRnnGradient {
  std::vector<double> gates_BTX, candidate_BTD;  // as gated_rnn_backward()'s; the second is of the GRU
};
GatedRnnGradient gated_rnn_reference_backward(const GatedRnnReferenceInput& input,
                                              const std::vector<double>& h_gradient_BTD);

}  // namespace engram
