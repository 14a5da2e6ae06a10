#include "memory/ops/delayed_rows.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace engram {

using torch::Tensor;

Tensor to_chunks(const Tensor& x_M, std::int64_t batch, std::int64_t window) {
  const Tensor x_BT = x_M.unflatten(0, {batch, -1});
  const std::int64_t steps = x_BT.size(1), padding = chunks_of(steps, window) * window - steps;
  std::vector<std::int64_t> behind(static_cast<std::size_t>(2 * (x_BT.dim() - 1)), 0);  // the last dimension first
  behind.back() = padding;
  return torch::constant_pad_nd(x_BT, behind).flatten(0, 1);
}

Tensor from_chunks(const Tensor& x_N, std::int64_t batch, std::int64_t steps) {
  return x_N.unflatten(0, {batch, -1}).narrow(1, 0, steps).flatten(0, 1).contiguous();
}

Tensor chunk_lengths(const Tensor& lengths_B, std::int64_t steps, std::int64_t window) {
  const Tensor first_C = window * torch::arange(chunks_of(steps, window), lengths_B.options());
  return (lengths_B.unsqueeze(1) - first_C).clamp(0, window).flatten();
}

DelayedRows::DelayedRows(Delay delay, std::int64_t batch, std::int64_t steps, std::int64_t window)
    : delay_(delay),
      batch_(batch),
      steps_(steps),
      window_(window),
      chunks_(chunks_of(steps, window)),
      memory_steps_(delay == Delay::kChunk ? 2 * chunks_ * window : steps) {}

// Of a chunk: up to the last step's read. The writes behind it would be read by later chunks alone.
Tensor DelayedRows::lengths(const Tensor& lengths_B) const {
  if (delay_ == Delay::kStream) return lengths_B;
  const Tensor chunk_B = (lengths_B - 1).clamp_min(0).floor_divide(window_);
  return lengths_B + chunk_B * window_;
}

Tensor DelayedRows::features(const Tensor& features_M3X) const {
  const Tensor memory_N3X = zeros_like_rows(features_M3X, memory_steps_);
  place(features_M3X.narrow(1, 0, 1), Role::kRead, memory_N3X.narrow(1, 0, 1));
  place(features_M3X.narrow(1, 1, 2), Role::kWrite, memory_N3X.narrow(1, 1, 2));
  return memory_N3X;
}

Tensor DelayedRows::features_backward(const Tensor& d_features_N3X) const {
  return torch::cat(
      {taken(d_features_N3X.narrow(1, 0, 1), Role::kRead), taken(d_features_N3X.narrow(1, 1, 2), Role::kWrite)}, 1);
}

Tensor DelayedRows::write(const Tensor& write_MH) const {
  if (delay_ == Delay::kStream) return where_written(write_MH);
  const Tensor memory_NH = zeros_like_rows(write_MH, memory_steps_);
  place(write_MH, Role::kWrite, memory_NH);
  return memory_NH;
}

Tensor DelayedRows::write_backward(const Tensor& d_write_NH) const {
  return delay_ == Delay::kStream ? where_written(d_write_NH) : taken(d_write_NH, Role::kWrite);
}

Tensor DelayedRows::answers(const Tensor& answers_NX) const {
  return delay_ == Delay::kStream ? answers_NX : taken(answers_NX, Role::kRead);
}

Tensor DelayedRows::answers_backward(const Tensor& d_answers_MX) const {
  if (delay_ == Delay::kStream) return d_answers_MX;
  const Tensor memory_NX = zeros_like_rows(d_answers_MX, memory_steps_);
  place(d_answers_MX, Role::kRead, memory_NX);
  return memory_NX;
}

Tensor DelayedRows::slots(const Tensor& memory_N, Role role) const {
  if (delay_ == Delay::kChunk)
    return memory_N.unflatten(0, {batch_, chunks_, 2, window_}).select(2, role == Role::kRead ? 0 : 1);
  const std::int64_t late = role == Role::kRead ? 0 : std::min(window_, steps_);
  return memory_N.unflatten(0, {batch_, steps_}).narrow(1, late, steps_ - late);
}

void DelayedRows::place(const Tensor& x_M, Role role, const Tensor& memory_N) const {
  const Tensor into = slots(memory_N, role);
  if (delay_ == Delay::kChunk)
    into.copy_(to_chunks(x_M, batch_, window_).unflatten(0, {batch_, chunks_, window_}));
  else
    into.copy_(x_M.unflatten(0, {batch_, steps_}).narrow(1, 0, into.size(1)));
}

Tensor DelayedRows::taken(const Tensor& memory_N, Role role) const {
  const Tensor from = slots(memory_N, role);
  if (delay_ == Delay::kChunk) return from_chunks(from.flatten(0, 2), batch_, steps_);
  const Tensor x_M = zeros_like_rows(memory_N, steps_);
  x_M.unflatten(0, {batch_, steps_}).narrow(1, 0, from.size(1)).copy_(from);
  return x_M;
}

Tensor DelayedRows::where_written(const Tensor& x_M) const {
  const Tensor own = x_M.clone();
  own.unflatten(0, {batch_, steps_}).narrow(1, 0, std::min(window_, steps_)).zero_();
  return own;
}

Tensor DelayedRows::zeros_like_rows(const Tensor& x, std::int64_t steps) const {
  std::vector<std::int64_t> shape = x.sizes().vec();
  shape[0] = batch_ * steps;
  return torch::zeros(shape, x.options());
}

}  // namespace engram
