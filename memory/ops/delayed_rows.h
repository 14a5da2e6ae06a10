// The rows of whole episodes rearranged for the delayed HQLTs (hqlt_delayed.cpp), so that a memory which at each row
// first writes and then reads computes them.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delayed_memory/delay.h"

namespace engram {

// The sequences of the fast weights, one for each of B sequences of T steps. kStream: T rows, each with key and value
// of S steps before, and a write strength of its own. kChunk: for every S steps their S reads, then their S writes.
// A row that writes nothing has a write strength of zero, and any finite key and value; the answer and the query of one
// that reads nothing are nobody's. Rows behind the last step's hold anything.
class DelayedRows {
 public:
  // window: S.
  DelayedRows(Delay delay, std::int64_t batch, std::int64_t steps, std::int64_t window);

  std::int64_t steps() const { return memory_steps_; }  // of a sequence of the fast weights
  torch::Tensor lengths(const torch::Tensor& lengths_B) const;

  // M = B T rows, N = B steps() ones. Features of query, key and value, and write strengths:
  torch::Tensor features(const torch::Tensor& features_M3X) const;
  torch::Tensor write(const torch::Tensor& write_MH) const;
  torch::Tensor answers(const torch::Tensor& answers_NX) const;  // -> [M, X]
  // And from the gradient of what each of them returns that of what it was given; some write it to `into`.
  void features_backward(const torch::Tensor& d_features_N3X, const torch::Tensor& into_M3X) const;
  void write_backward(const torch::Tensor& d_write_NH, const torch::Tensor& into_MH) const;
  torch::Tensor answers_backward(const torch::Tensor& d_answers_MX) const;

 private:
  enum class Role { kRead, kWrite };
  // The rows of x_M that have a row of this role, each piece with its rows in memory_N: views of one shape.
  std::vector<std::pair<torch::Tensor, torch::Tensor>> pieces(const torch::Tensor& x_M, Role role,
                                                              const torch::Tensor& memory_N) const;
  void place(const torch::Tensor& x_M, Role role, const torch::Tensor& memory_N) const;
  void take(const torch::Tensor& memory_N, Role role, const torch::Tensor& x_M) const;
  // Of a stream: the steps whose row has no write, [B, n, ...].
  torch::Tensor idle(const torch::Tensor& x_M) const;
  torch::Tensor rows_like(const torch::Tensor& x, std::int64_t steps) const;

  Delay delay_;
  std::int64_t batch_, steps_, window_, chunks_, memory_steps_;
};

}  // namespace engram
