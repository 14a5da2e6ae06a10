// What Elman network, GRU and LSTM over fresh sequences are given, on a CPU and on a GPU.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>

#include "kernels/recurrences/gated_rnn/cell.h"

namespace engram {

// The cell whose U [X, D] it is, by X / D.
inline GatedCell gated_cell_of(const torch::Tensor& recurrent_XD) {
  const std::int64_t gates = recurrent_XD.size(0) / recurrent_XD.size(1);
  return gates == gates_of(GatedCell::kElman) ? GatedCell::kElman
         : gates == gates_of(GatedCell::kGru) ? GatedCell::kGru
                                              : GatedCell::kLstm;
}

// A layer's weights, as LibTorch's modules have them: [X, I], [X, D], [X] and [X], X = D (Elman), 3 D (GRU) or 4 D
// (LSTM), float32; without biases both are undefined.
struct GatedRnnWeights {
  torch::Tensor input_XI, recurrent_XD, input_bias_X, recurrent_bias_X;
  std::int64_t linear = 0;  // so many of an Elman network's last channels are not squashed by tanh

  std::int64_t width() const { return recurrent_XD.size(1); }
  GatedCell cell() const { return gated_cell_of(recurrent_XD); }
  // What is added to the gates of the input [X]; and the candidate's own bias [D], on which the GRU's reset gate acts.
  // Of the others the second is empty: an undefined tensor has no gradient to leave out.
  std::pair<torch::Tensor, torch::Tensor> biases() const {
    if (!input_bias_X.defined())
      return {torch::zeros({recurrent_XD.size(0)}, recurrent_XD.options()), torch::empty({0}, recurrent_XD.options())};
    if (cell() != GatedCell::kGru) return {input_bias_X + recurrent_bias_X, recurrent_bias_X.narrow(0, 0, 0)};
    return {input_bias_X + torch::constant_pad_nd(recurrent_bias_X.narrow(0, 0, 2 * width()), {0, width()}),
            recurrent_bias_X.narrow(0, 2 * width(), width())};
  }
};

}  // namespace engram
