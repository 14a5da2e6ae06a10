// Several small networks ("heads") on the same rows, each two hidden layers with relu and a linear output:
//
//   first  = relu(x W1^T + b1)      second = relu(first W2^T + b2)      output = second W3^T + b3
//
// and back from the outputs' gradients, in bfloat16 products with float accumulation, on Hopper's tensor cores. What
// stands between two products stays in registers; the hidden layers are written for the products of the weights'
// gradients alone. README.md has the derivation.
//
// Dimensions: M rows, D channels of x in rows of P, I hidden units, A outputs, in rows of `output_stride`, H heads.
// All matrices contiguous, 16-byte aligned, none may alias another; all work is queued on `stream`, the same input
// gives the same bits. A row of x, or of a gradient, reaches nothing but its own row and the biases' gradients.
// Errors: std::runtime_error for a shape that supports_mlp_heads() refuses, or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/support.h"
#include "kernels/block/gradient_sums.h"

namespace engram {

constexpr int kMlpHeadsHidden = 256;  // the one hidden width
constexpr int kMaxMlpHeads = 8;

struct MlpHeadsShape {
  std::int64_t rows;  // M, 1 .. 2^31 - 1
  int width;          // D, 1 .. P
  int stride;         // P, a multiple of 16, 16 .. 128
  int hidden;         // I, 256 here and less in kernels/heads/narrow_heads
  int outputs;        // A, 1 .. 16
  int heads;          // H, 1 .. 8
  int kept;           // heads 0 .. kept - 1 are trained: what their backward pass needs is written

  // A rounded up; what follows the A outputs is zero.
  int output_stride() const { return (outputs + 7) / 8 * 8; }
};

// Whether all but the hidden width is within the limits above, which are those of kernels/heads/narrow_heads too.
Support supports_mlp_heads_limits(const MlpHeadsShape& shape);
// Whether there are kernels for the shape; and whether the current device, one of compute capability 9.0, and this
// build have them.
Support supports_mlp_heads_sizes(const MlpHeadsShape& shape);
Support supports_mlp_heads(const MlpHeadsShape& shape);

// A head's parameters, float32.
struct MlpHeadWeights {
  const float *weight1_ID, *bias1_I, *weight2_II, *bias2_I, *weight3_AI, *bias3_A;
};

// The weights in bfloat16 in the order in which the kernels read them; all H heads in one launch.
std::size_t mlp_heads_packed_bytes(const MlpHeadsShape& shape);
void mlp_heads_pack(const MlpHeadsShape& shape, const std::vector<MlpHeadWeights>& weights, void* packed,
                    cudaStream_t stream);

struct MlpHeadsForward {
  MlpHeadsShape shape;
  const void* x_MP;    // bfloat16, zero after the D channels
  const void* packed;  // mlp_heads_pack's
  // The kept heads' hidden layers, bfloat16 [M, kept, I], and in mlp_heads_mask_bytes which of their units are not
  // zero, for the backward pass.
  void *first, *second;
  void* masks;
  float* output_MA[kMaxMlpHeads];  // [M, output_stride] each
};
std::size_t mlp_heads_mask_bytes(const MlpHeadsShape& shape);
void mlp_heads_forward(const MlpHeadsForward& forward, cudaStream_t stream);

// Gradients of the kept heads, one or more: d_second = (d_output W3) where second != 0, d_first = (d_second W2) where
// first != 0, d_x = the sum over the heads of d_first W1. d_output is rounded to bfloat16 for the first product.
struct MlpHeadsBackward {
  MlpHeadsShape shape;
  const void *packed, *masks;
  const float* d_output_MA[kMaxMlpHeads];  // [M, output_stride] each, zero after the A outputs
  void *d_first, *d_second;                // bfloat16 [M, kept, I]
  void* d_output_rounded;                  // bfloat16 [M, kept, output_stride]
  void* d_x_MP;                            // bfloat16, zero after the D channels
};
std::size_t mlp_heads_backward_scratch_bytes(const MlpHeadsShape& shape);
// Writes all of these, and in `scratch` what add_up() makes the biases' gradients of.
void mlp_heads_backward(const MlpHeadsBackward& backward, void* scratch, cudaStream_t stream);
// The kept heads' bias gradients, summed over the rows: b1 [kept, I], then b2 [kept, I], then b3 [kept, output_stride].
GradientSum mlp_heads_bias_sum(const MlpHeadsShape& shape, const void* scratch, float* d_bias);

}  // namespace engram
