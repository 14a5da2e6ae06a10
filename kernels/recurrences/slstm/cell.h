// One channel of sLSTM over one step, forward and backward, as slstm.h defines it: the same text for the kernels and
// for the test that walks through it on a CPU.
#pragma once

#include <cmath>

#include "base/host_device.h"

namespace engram::slstm {

enum Gate { kInput, kForget, kCandidate, kOutput, kGates };

constexpr float kSmallestNormaliser = 1e-20f;

struct Cell {
  float c, n, m;
};

HOST_DEVICE inline float sigmoid(float x) { return 1 / (1 + expf(-x)); }
HOST_DEVICE inline float log_sigmoid(float x) { return fminf(x, 0) - log1pf(expf(-fabsf(x))); }

// i' and f' of a step that comes to `m`.
struct Written {
  float write, keep;
};
HOST_DEVICE inline Written written(const float (&a)[kGates], float m_before, float m) {
  return {expf(a[kInput] - m), expf(log_sigmoid(a[kForget]) + m_before - m)};
}

HOST_DEVICE inline Cell next(const Cell& before, const float (&a)[kGates]) {
  const float m = fmaxf(log_sigmoid(a[kForget]) + before.m, a[kInput]);
  const auto [write, keep] = written(a, before.m, m);
  return {keep * before.c + write * tanhf(a[kCandidate]), keep * before.n + write, m};
}

HOST_DEVICE inline float hidden(const Cell& cell, float a_output) {
  return sigmoid(a_output) * cell.c / fmaxf(cell.n, kSmallestNormaliser);
}

// Gradients of c and n, in the scale of the cell's m; those of later steps on entry, of earlier ones behind it.
struct CellGradient {
  float c = 0, n = 0;
};

// d_hidden: the whole gradient of h. Writes that of a.
HOST_DEVICE inline void back(const Cell& before, const Cell& cell, const float (&a)[kGates], float d_hidden,
                             CellGradient& carried, float (&d_a)[kGates]) {
  const float normaliser = fmaxf(cell.n, kSmallestNormaliser), ratio = cell.c / normaliser;
  const float output = sigmoid(a[kOutput]), d_ratio = d_hidden * output;
  d_a[kOutput] = d_hidden * ratio * output * (1 - output);
  const float d_c = carried.c + d_ratio / normaliser;
  const float d_n = carried.n - (cell.n >= kSmallestNormaliser ? d_ratio * ratio / normaliser : 0);
  const auto [write, keep] = written(a, before.m, cell.m);
  const float candidate = tanhf(a[kCandidate]);
  d_a[kCandidate] = d_c * write * (1 - candidate * candidate);
  d_a[kInput] = (d_c * candidate + d_n) * write;
  d_a[kForget] = (d_c * before.c + d_n * before.n) * keep * sigmoid(-a[kForget]);
  carried = {d_c * keep, d_n * keep};
}

}  // namespace engram::slstm
