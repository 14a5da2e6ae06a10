// What the blocks' fused branches ask for (fused_mixer.h, fused_causal_attention.h).
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "nn/fused/support.h"

namespace engram::fused {

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

}  // namespace engram::fused
