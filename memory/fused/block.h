// What the blocks' fused branches ask for, and the rows that they are given.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "nn/fused/support.h"

namespace engram {

// Sequences that all begin fresh, for a pass over whole episodes.
struct FreshRows {
  FreshRows(std::int64_t batch, std::int64_t steps, const torch::Tensor& lengths_B)
      : batch(batch), steps(steps), lengths_B(lengths_B), length_B(lengths_B.to(torch::kInt32)) {}

  std::int64_t batch, steps;
  torch::Tensor lengths_B;  // int64
  torch::Tensor length_B;   // the same as int32
};

namespace fused {

constexpr std::int64_t kMaxWidth = 1024, kMaxHeadWidth = 128;  // of D and D / heads

// Of all but the branches.
inline Support stack_support(std::int64_t width, torch::ScalarType dtype, torch::Device device) {
  if (Support own = device_support(dtype, device); !own) return own;
  return at_most("width", width, kMaxWidth);
}

inline Support block_support(std::int64_t width, std::int64_t heads, torch::ScalarType dtype, torch::Device device) {
  if (Support own = stack_support(width, dtype, device); !own) return own;
  return at_most("width / heads", width / heads, kMaxHeadWidth);
}

}  // namespace fused
}  // namespace engram
