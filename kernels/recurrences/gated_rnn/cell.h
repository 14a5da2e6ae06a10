// One channel of a gated recurrent cell over one step, forward and backward, as gated_rnn.h defines it: the same text
// for the kernels and for the test that walks through it on a CPU.
#pragma once

#include "base/host_device.h"
#include "kernels/common/fast_math.h"

namespace engram {

enum class GatedCell { kElman, kGru, kLstm };

}  // namespace engram

namespace engram::gated_rnn {

// Right to some 2^-21 on a GPU: far below what a bfloat16 operand keeps, and much of a step's time.
HOST_DEVICE inline float squash(float x) { return 2 * fast_sigmoid(2 * x) - 1; }  // tanh

// What tells the cells apart. kSaved: numbers of a channel and step that the backward pass reads, all of them moderate.
// `linear`: the channel is one of an Elman network's that tanh does not bound; the other cells have none.

// Gradients of one step. d_input and d_recurrent: of what the input and what h_{t-1} added to the gates.
template <int kGates>
struct CellGradient {
  float d_input[kGates], d_recurrent[kGates];
  float d_hidden;  // what reaches h_{t-1} past the recurrent product
};

struct Elman {
  static constexpr int kGates = 1, kSaved = 1;
  static constexpr bool kHasCell = false, kHasCandidateBias = false;

  // h_t. Of a linear channel 0 is saved: tanh's slope there is the channel's.
  HOST_DEVICE static float next(const float (&input)[kGates], const float (&recurrent)[kGates], float, float&,
                                float (&saved)[kSaved], bool linear) {
    const float sum = input[0] + recurrent[0], squashed = squash(sum);
    saved[0] = linear ? 0 : squashed;
    return linear ? sum : squashed;
  }
  HOST_DEVICE static CellGradient<kGates> back(const float (&saved)[kSaved], float, float, float, float d, float&) {
    const float d_a = d * (1 - saved[0] * saved[0]);
    return {{d_a}, {d_a}, 0};
  }
};

struct Gru {
  static constexpr int kGates = 3, kSaved = 4;  // reset r, update z, candidate n
  static constexpr bool kHasCell = false, kHasCandidateBias = true;

  // h_t. `recurrent` has the candidate's own bias in it.
  HOST_DEVICE static float next(const float (&input)[kGates], const float (&recurrent)[kGates], float hidden, float&,
                                float (&saved)[kSaved], bool) {
    const float r = fast_sigmoid(input[0] + recurrent[0]), z = fast_sigmoid(input[1] + recurrent[1]);
    const float n = squash(input[2] + r * recurrent[2]);
    saved[0] = r, saved[1] = z, saved[2] = n, saved[3] = recurrent[2];
    return n + z * (hidden - n);
  }
  HOST_DEVICE static CellGradient<kGates> back(const float (&saved)[kSaved], float hidden_before, float, float, float d,
                                               float&) {
    const float r = saved[0], z = saved[1], n = saved[2];
    const float d_z = d * (hidden_before - n) * z * (1 - z), d_n = d * (1 - z) * (1 - n * n);
    const float d_r = d_n * saved[3] * r * (1 - r);
    return {{d_r, d_z, d_n}, {d_r, d_z, d_n * r}, d * z};
  }
};

struct Lstm {
  static constexpr int kGates = 4, kSaved = 4;  // input i, forget f, candidate g, output o
  static constexpr bool kHasCell = true, kHasCandidateBias = false;

  HOST_DEVICE static float next(const float (&input)[kGates], const float (&recurrent)[kGates], float, float& cell,
                                float (&saved)[kSaved], bool) {
    const float i = fast_sigmoid(input[0] + recurrent[0]), f = fast_sigmoid(input[1] + recurrent[1]);
    const float g = squash(input[2] + recurrent[2]), o = fast_sigmoid(input[3] + recurrent[3]);
    saved[0] = i, saved[1] = f, saved[2] = g, saved[3] = o;
    cell = f * cell + i * g;
    return o * squash(cell);
  }
  // d_cell: of c_t from later steps on entry, of c_{t-1} behind it.
  HOST_DEVICE static CellGradient<kGates> back(const float (&saved)[kSaved], float, float cell_before, float cell,
                                               float d, float& d_cell) {
    const float i = saved[0], f = saved[1], g = saved[2], o = saved[3];
    const float squashed = squash(cell), d_c = d_cell + d * o * (1 - squashed * squashed);
    d_cell = d_c * f;
    const float d_i = d_c * g * i * (1 - i), d_f = d_c * cell_before * f * (1 - f), d_g = d_c * i * (1 - g * g);
    const float d_o = d * squashed * o * (1 - o);
    return {{d_i, d_f, d_g, d_o}, {d_i, d_f, d_g, d_o}, 0};
  }
};

// Calls work(Cell{}).
template <class Work>
void of_cell(GatedCell cell, const Work& work) {
  switch (cell) {
    case GatedCell::kElman:
      return work(Elman{});
    case GatedCell::kGru:
      return work(Gru{});
    case GatedCell::kLstm:
      return work(Lstm{});
  }
}

}  // namespace engram::gated_rnn

namespace engram {

// X / D
constexpr int gates_of(GatedCell cell) {
  return cell == GatedCell::kElman ? gated_rnn::Elman::kGates
         : cell == GatedCell::kGru ? gated_rnn::Gru::kGates
                                   : gated_rnn::Lstm::kGates;
}
// Of a channel and step, for the backward pass.
constexpr int saved_numbers_of(GatedCell cell) {
  return cell == GatedCell::kElman ? gated_rnn::Elman::kSaved
         : cell == GatedCell::kGru ? gated_rnn::Gru::kSaved
                                   : gated_rnn::Lstm::kSaved;
}

}  // namespace engram
