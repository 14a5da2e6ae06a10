// Attention over windows of at most 64 steps in bfloat16, width at most 64, without dropout: what the general kernels
// compute, in one pass. The 64 queries of a block see keys of two blocks only, a warp's 16 queries see 80 keys in a
// row, and the 16 keys of a warp are seen by 80 queries in a row: no loop over blocks, no running softmax. Where no
// query sees beyond its own block (sequences of at most 64 steps, whatever the window, and chunks that blocks are made
// of) a block of threads works on one block of steps, with less memory and half of the products.
//
// Saved queries and keys stand in an order of channels of their own (short_window_tile.cuh).
#pragma once

#include "kernels/attention/problem.cuh"

namespace engram::attention {

constexpr int kShortWindow = 64;

// Of a block of the backward kernel, the larger one: two fill a multiprocessor of compute capability 9.0.
constexpr int kShortWindowSharedBytes = 115712;

// True where no query sees a key of another block of 64 steps.
inline bool sees_own_tile_alone(const AttentionInput& input) {
  return input.shape.time <= kShortWindow || (input.chunked && kShortWindow % input.window == 0);
}
// True where the short kernels serve.
inline bool is_short_window(const AttentionInput& input) {
  return input.dtype == Dtype::kBfloat16 && input.shape.width <= 64 &&
         (input.window <= kShortWindow || sees_own_tile_alone(input)) && !input.dropout.drops() &&
         cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) >= kShortWindowSharedBytes;
}

void short_window_forward(const AttentionInput& input, void* output, void* saved, cudaStream_t stream);
void short_window_backward(const AttentionInput& input, const Problem<bf16>& problem, const Gradient<bf16>& gradient,
                           cudaStream_t stream);

}  // namespace engram::attention
