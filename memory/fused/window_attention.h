// Causal softmax attention over a window (kernels/attention) as a part of a core (projected_branch.h).
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "kernels/attention/attention.h"
#include "memory/fused/attention.h"
#include "memory/fused/projected_branch.h"

namespace engram::cuda {

// Of one pass over B sequences of T steps. What it is given must live until its backward pass.
class WindowAttention {
 public:
  WindowAttention(const HeadShape& shape, std::int64_t batch, std::int64_t steps, const torch::Tensor& lengths_B,
                  const WindowSettings& settings);

  // Rows of queries, keys and values, a head `padded` elements apart -> [B T, part]. like: of their type and device.
  torch::Tensor forward(const AttentionRows& q, const AttentionRows& k, const AttentionRows& v,
                        const torch::Tensor& like);
  void backward(const torch::Tensor& d_output, const AttentionMutableRows& d_q, const AttentionMutableRows& d_k,
                const AttentionMutableRows& d_v) const;

 private:
  torch::Tensor lengths_B_, output_, saved_;
  AttentionInput input_;
};

// One step of N rows at position_N (int64): turns and attention as kernels/attention's attention_step(), which stores
// the step in the contiguous ring. Rows of queries, keys and values as above, in the type of output [N, part].
void attention_step_of_rows(const HeadShape& shape, const AttentionRows& q, const AttentionRows& k,
                            const AttentionRows& v, const torch::Tensor& position_N, const KeyValueRing& ring,
                            const WindowSettings& settings, const torch::Tensor& output);

}  // namespace engram::cuda
