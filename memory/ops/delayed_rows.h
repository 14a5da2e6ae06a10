// The rows of whole episodes rearranged for the delayed HQLTs (hqlt_delayed.cpp), so that a memory which at each row
// first writes and then reads, and attention over sequences, compute them.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "kernels/fast_weights/delayed_memory/delay.h"

namespace engram {

// The sequences of the fast weights, one for each of B sequences of T steps. kStream: T rows, each with key and value
// of S steps before, and a write strength of its own. kChunk: for every S steps their S reads, then their S writes.
// Where a row has no read or no write it is zero.
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
  // And from the gradient of what each of them returns that of what it was given.
  torch::Tensor features_backward(const torch::Tensor& d_features_N3X) const;
  torch::Tensor write_backward(const torch::Tensor& d_write_NH) const;
  torch::Tensor answers_backward(const torch::Tensor& d_answers_MX) const;

 private:
  enum class Role { kRead, kWrite };
  // The rows of a sequence that have one, in order: [B, n, ...], of a chunk [B, chunks, S, ...]; a view.
  torch::Tensor slots(const torch::Tensor& memory_N, Role role) const;
  void place(const torch::Tensor& x_M, Role role, const torch::Tensor& memory_N) const;
  torch::Tensor taken(const torch::Tensor& memory_N, Role role) const;
  // Of a stream: zero in the steps whose row has no write.
  torch::Tensor where_written(const torch::Tensor& x_M) const;
  torch::Tensor zeros_like_rows(const torch::Tensor& x, std::int64_t steps) const;

  Delay delay_;
  std::int64_t batch_, steps_, window_, chunks_, memory_steps_;
};

// Of `steps` steps, the last one whole or not.
inline std::int64_t chunks_of(std::int64_t steps, std::int64_t window) { return (steps + window - 1) / window; }
// Rows [B T, ...] of B sequences of T steps as B C sequences of the S steps of a chunk, zeros behind the T; and back.
torch::Tensor to_chunks(const torch::Tensor& x_M, std::int64_t batch, std::int64_t window);
torch::Tensor from_chunks(const torch::Tensor& x_N, std::int64_t batch, std::int64_t steps);
// How many steps of each chunk are valid: [B] -> [B C].
torch::Tensor chunk_lengths(const torch::Tensor& lengths_B, std::int64_t steps, std::int64_t window);

}  // namespace engram
