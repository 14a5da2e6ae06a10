#include "memory/ops/delayed_rows.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace engram {

using torch::Tensor;

DelayedRows::DelayedRows(Delay delay, std::int64_t batch, std::int64_t steps, std::int64_t window)
    : delay_(delay),
      batch_(batch),
      steps_(steps),
      window_(window),
      chunks_((steps + window - 1) / window),
      memory_steps_(delay == Delay::kChunk ? 2 * chunks_ * window : steps) {}

// Of a chunk: up to the last step's read. The writes behind it would be read by later chunks alone.
Tensor DelayedRows::lengths(const Tensor& lengths_B) const {
  if (delay_ == Delay::kStream) return lengths_B;
  const Tensor chunk_B = (lengths_B - 1).clamp_min(0).floor_divide(window_);
  return lengths_B + chunk_B * window_;
}

Tensor DelayedRows::features(const Tensor& features_M3X) const {
  const Tensor memory_N3X = rows_like(features_M3X, memory_steps_);
  if (delay_ == Delay::kChunk) {  // reads and writes are the same rows: copied whole, only write strengths differ
    place(features_M3X, Role::kRead, memory_N3X);
    place(features_M3X, Role::kWrite, memory_N3X);
    return memory_N3X;
  }
  const Tensor written = memory_N3X.narrow(1, 1, 2);
  place(features_M3X.narrow(1, 0, 1), Role::kRead, memory_N3X.narrow(1, 0, 1));
  place(features_M3X.narrow(1, 1, 2), Role::kWrite, written);
  idle(written).zero_();
  return memory_N3X;
}

void DelayedRows::features_backward(const Tensor& d_features_N3X, const Tensor& into_M3X) const {
  take(d_features_N3X.narrow(1, 0, 1), Role::kRead, into_M3X.narrow(1, 0, 1));
  take(d_features_N3X.narrow(1, 1, 2), Role::kWrite, into_M3X.narrow(1, 1, 2));
}

Tensor DelayedRows::write(const Tensor& write_MH) const {
  if (delay_ == Delay::kStream) {
    const Tensor own = write_MH.clone();
    idle(own).zero_();
    return own;
  }
  const Tensor memory_NH = rows_like(write_MH, memory_steps_).zero_();
  place(write_MH, Role::kWrite, memory_NH);
  return memory_NH;
}

void DelayedRows::write_backward(const Tensor& d_write_NH, const Tensor& into_MH) const {
  if (delay_ == Delay::kChunk) return take(d_write_NH, Role::kWrite, into_MH);
  into_MH.copy_(d_write_NH);
  idle(into_MH).zero_();
}

Tensor DelayedRows::answers(const Tensor& answers_NX) const {
  if (delay_ == Delay::kStream) return answers_NX;
  const Tensor answers_MX = rows_like(answers_NX, steps_);
  take(answers_NX, Role::kRead, answers_MX);
  return answers_MX;
}

Tensor DelayedRows::answers_backward(const Tensor& d_answers_MX) const {
  if (delay_ == Delay::kStream) return d_answers_MX;
  const Tensor memory_NX = rows_like(d_answers_MX, memory_steps_).zero_();
  place(d_answers_MX, Role::kRead, memory_NX);
  return memory_NX;
}

std::vector<std::pair<Tensor, Tensor>> DelayedRows::pieces(const Tensor& x_M, Role role, const Tensor& memory_N) const {
  const Tensor x_BT = x_M.unflatten(0, {batch_, steps_});
  if (delay_ == Delay::kStream) {
    const std::int64_t late = role == Role::kRead ? 0 : std::min(window_, steps_);
    return {{x_BT.narrow(1, 0, steps_ - late), memory_N.unflatten(0, {batch_, steps_}).narrow(1, late, steps_ - late)}};
  }
  const Tensor memory_BCS = memory_N.unflatten(0, {batch_, chunks_, 2, window_}).select(2, role == Role::kRead ? 0 : 1);
  const std::int64_t whole = steps_ / window_, rest = steps_ % window_;
  std::vector<std::pair<Tensor, Tensor>> pieces;
  if (whole > 0)
    pieces.emplace_back(x_BT.narrow(1, 0, whole * window_).unflatten(1, {whole, window_}),
                        memory_BCS.narrow(1, 0, whole));
  if (rest > 0)
    pieces.emplace_back(x_BT.narrow(1, whole * window_, rest), memory_BCS.select(1, whole).narrow(1, 0, rest));
  return pieces;
}

void DelayedRows::place(const Tensor& x_M, Role role, const Tensor& memory_N) const {
  for (const auto& [from, into] : pieces(x_M, role, memory_N)) into.copy_(from);
}

void DelayedRows::take(const Tensor& memory_N, Role role, const Tensor& x_M) const {
  for (const auto& [into, from] : pieces(x_M, role, memory_N)) into.copy_(from);
  if (delay_ == Delay::kStream && role == Role::kWrite)  // what the last steps would write nobody reads
    x_M.unflatten(0, {batch_, steps_}).narrow(1, steps_ - std::min(window_, steps_), std::min(window_, steps_)).zero_();
}

Tensor DelayedRows::idle(const Tensor& x_M) const {
  return x_M.unflatten(0, {batch_, steps_}).narrow(1, 0, std::min(window_, steps_));
}

Tensor DelayedRows::rows_like(const Tensor& x, std::int64_t steps) const {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = batch_ * steps;
  return torch::empty(shape, x.options());
}

}  // namespace engram
