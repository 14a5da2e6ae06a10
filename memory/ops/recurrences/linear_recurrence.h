// The elementwise linear recurrence: what the linear recurrent networks have in common.
//
// Shapes: B batch, T time, D channels.
#pragma once

#include <torch/torch.h>

namespace engram {

// h_t = a_t h_{t-1} + b_t from h0 on, element by element: [B, T, D] of all h_t. float32, float64 or complex of either,
// which all three share with their device; a is [B, T, D], or [D] where it is that of all rows and steps.
// Differentiable once. On a GPU by kernels/recurrences/linear_recurrence, but for float64.
torch::Tensor linear_recurrence(const torch::Tensor& a, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// The same by LibTorch's operations on any device.
//
// Parallel over time in 2 log2(T) rounds (Blelloch 1990): the steps 2i and 2i + 1 are made one, whose factor is
// a_{2i+1} a_{2i}, half as many are solved the same way, and each even step follows from the odd one before it. Nothing
// is ever divided, so that factors may be zero, negative or large; products of factors, over the whole sequence as
// well, must stay finite, which factors up to 1 always do. Nothing waits for a GPU.
torch::Tensor plain_linear_recurrence(const torch::Tensor& a, const torch::Tensor& b_BTD, const torch::Tensor& h0_BD);

// h after lengths_B[b] steps of row b (int64, 0 .. T): h0 of a row without any.
torch::Tensor state_after(const torch::Tensor& h_BTD, const torch::Tensor& h0_BD, const torch::Tensor& lengths_B);

// The factor and the addend of a step h <- keep h + write, as gates make them.
struct RecurrenceUpdate {
  torch::Tensor keep, write;
};

// radius e^(i angle). As torch::polar, whose gradient LibTorch would compile on a GPU at run time.
inline torch::Tensor from_polar(const torch::Tensor& radius, const torch::Tensor& angle) {
  return torch::complex(radius * angle.cos(), radius * angle.sin());
}

}  // namespace engram
