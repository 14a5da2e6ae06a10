// The networks of kernels/heads/mlp_heads/mlp_heads.h with few hidden units, by mma.sync in small blocks of which a
// multiprocessor holds several; the gradients of the weights are made by the same kernels. Formulas, roundings and
// dimensions as there, with I = 64 or 128. README.md has the derivation.
//
// All matrices but the parameters contiguous and 16-byte aligned, none may alias another; all work is queued on
// `stream`. The same input gives the same bits, on every device. A row of x, or of a gradient, reaches nothing but its
// own row and the parameters' gradients. Errors: std::runtime_error for a shape that supports_narrow_heads_sizes()
// refuses, or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <vector>

#include "base/support.h"
#include "kernels/block/gradient_sums.h"
#include "kernels/heads/mlp_heads/mlp_heads.h"

namespace engram {

// Whether there are kernels for the shape; and whether the current device, one of compute capability 8.0 or later as
// all that engram runs on, has the shared memory that they take.
Support supports_narrow_heads_sizes(const MlpHeadsShape& shape);
Support supports_narrow_heads(const MlpHeadsShape& shape);

struct NarrowHeadsForward {
  MlpHeadsShape shape;
  const void* x_MP;                      // bfloat16, zero after the D channels
  MlpHeadWeights weights[kMaxMlpHeads];  // of all H heads; their rounding to bfloat16 is the kernels'
  void *first, *second;                  // the kept heads' hidden layers, bfloat16 [M, kept, I]
  float* output_MA[kMaxMlpHeads];        // [M, output_stride] each, zero after the A outputs
};
void narrow_heads_forward(const NarrowHeadsForward& forward, cudaStream_t stream);

// Gradients of the kept heads, one or more, as in MlpHeadsBackward, with what the forward pass read and wrote.
struct NarrowHeadsBackward {
  MlpHeadsShape shape;
  const void* x_MP;
  MlpHeadWeights weights[kMaxMlpHeads];  // of the kept heads; biases are not read
  const void *first, *second;
  const float* d_output_MA[kMaxMlpHeads];  // [M, output_stride] each, zero after the A outputs
  void* d_x_MP;                            // bfloat16, zero after the D channels
};
std::size_t narrow_heads_backward_scratch_bytes(const MlpHeadsShape& shape);
// Writes d_x, and in `scratch` what add_up() makes the parameters' gradients of.
void narrow_heads_backward(const NarrowHeadsBackward& backward, void* scratch, cudaStream_t stream);

// The gradients of the kept heads' parameters, float32: d_weight = the sum over the rows of products of a layer's
// gradient and the layer before it, both in bfloat16; d_bias as mlp_heads_bias_sum().
struct NarrowHeadsGradients {
  float* weight1_ID;  // [kept, I, D]
  float* weight2_II;  // [kept, I, I]
  float* weight3_AI;  // [kept, A, I]
  float* bias;        // b1 [kept, I], then b2 [kept, I], then b3 [kept, output_stride]
};
std::vector<GradientSum> narrow_heads_sums(const MlpHeadsShape& shape, const void* scratch,
                                           const NarrowHeadsGradients& gradients);

}  // namespace engram
