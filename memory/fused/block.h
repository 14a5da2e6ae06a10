// What the blocks' fused branches ask for, and the rows that they are given.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <string>

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

namespace cuda {

constexpr std::int64_t kMaxWidth = 1024, kMaxHeadWidth = 128;  // of D and D / heads

// Of all but the branches.
inline Support supports_stack(std::int64_t width, torch::ScalarType dtype, torch::Device device) {
  if (Support own = supports_device(dtype, device); !own) return own;
  return at_most("width", width, kMaxWidth);
}

inline Support supports_block(std::int64_t width, std::int64_t heads, torch::ScalarType dtype, torch::Device device) {
  if (Support own = supports_stack(width, dtype, device); !own) return own;
  return at_most("width / heads", width / heads, kMaxHeadWidth);
}

// Of a step of memories by heads.
inline Support supports_step_of_heads(std::int64_t width, std::int64_t heads, torch::ScalarType dtype,
                                      torch::Device device) {
  if (Support own = supports_block(width, heads, dtype, device); !own) return own;
  if (width / heads % 2 == 0) return {};
  return Support::no("width / heads " + std::to_string(width / heads) + " is not even");
}

}  // namespace cuda
}  // namespace engram
