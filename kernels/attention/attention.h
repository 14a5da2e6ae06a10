// Causal softmax attention over a sliding window, with rotary positions folded in: over whole sequences (for learning)
// and over one step (for acting). A window of T or more is full causal attention.
//
// For every row b and head h, with q', k' the queries and keys turned to their position p (below):
//   s_tu = scale * q'_t . k'_u                      t - window < u <= t
//   o_t  = sum over u of softmax_u(s_tu) f_tu v_u   f_tu: dropout's factor, 1 without
// for t < length_B[b]. In chunks (`chunked`) a step sees, of its window S, the steps since the last multiple of S:
// t - t mod S <= u <= t. Outputs and gradients at t >= length are zero; inputs there are never read.
// Rotary positions (Su et al., "RoFormer", 2021): of the first R = rotary_width channels, i and i + R / 2 are turned as
// a plane by the angle p * 10000^(-2 i / R); p = t, or the row's position in a step. R = 0: q' = q, k' = k.
// Source: Dao, "FlashAttention-2" (2023), algorithms 1 and 2; README.md beside this file has the form used here.
//
// Sequences begin fresh. What steps carry is a ring of S slots of turned keys and of values; the step at position p
// stands in slot p mod S.
//
// Dimensions: B rows, T steps, H heads, W head width, even, 2 <= W <= 128 (padded inside to 64 or 128), S slots.
// Element types: q, k, v, output and their gradients are all float or all bfloat16 (`dtype`); a ring is float or
// bfloat16 by itself. Sums are accumulated in float; float products are exact to float's rounding. RMS error over RMS:
// at most 1e-5 in float; in bfloat16 0.005 forward and 0.008 backward.
// Layout: element (b, t, h, c) of q, k, v and their gradients at data[(b * T + t) * row_stride + h * head_stride + c],
// so that they may be slices of one product; row_stride and head_stride even. Outputs and output gradients are
// contiguous [B, T, H, W], rings [B, S, H, W].
// Alignment: 4 bytes for bfloat16, 8 for float; 16 where pointers, strides and W allow it is faster.
// Aliasing: no output may overlap an input or another output. Scratch and saved buffers: 16-byte aligned, any contents.
// All work is queued on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "base/dropout.h"
#include "kernels/common/cuda_support.h"

namespace engram {

struct AttentionShape {
  int batch;
  int time;
  int heads;
  int width;
};

// Rows of vectors, the row of (b, t) at data + (b * T + t) * row_stride; strides in elements.
struct AttentionRows {
  const void* data;
  std::int64_t row_stride;
};
struct AttentionMutableRows {
  void* data;
  std::int64_t row_stride;
};

struct AttentionRing {
  Dtype dtype = Dtype::kFloat32;
  int slots = 0;
  void* key_BSHW = nullptr;
  void* value_BSHW = nullptr;
};

struct AttentionInput {
  AttentionShape shape;
  Dtype dtype;
  float scale;               // > 0
  int window;                // >= 1, the own step included
  int rotary_width;          // even, 0 .. W
  std::int64_t head_stride;  // of q, k, v
  AttentionRows q, k, v;
  const std::int64_t* length_B;  // on the device, 0 <= length <= T; null: all T
  DropoutKey dropout;            // f_tu: element (row (b * H + h) * T + t, channel u) of a tensor with T channels
  bool chunked = false;
};

// Writes output [B, T, H, W], and to `saved` what the backward pass needs, turned queries and keys among it, and with
// dropout T^2 / 8 bytes a row and head. The forward pass itself works there too: a caller without a backward pass may
// use the buffer anew for each call.
std::size_t attention_saved_bytes(const AttentionShape& shape, Dtype dtype, bool dropout);
void attention_forward(const AttentionInput& input, void* output_BTHW, void* saved, cudaStream_t stream);

// `output` and `saved` as written by attention_forward for the same input.
struct AttentionOutputGradient {
  const void* output_BTHW;
  const void* saved;
  const void* d_output_BTHW;
};

struct AttentionInputGradient {
  std::int64_t head_stride;
  AttentionMutableRows q, k, v;
};

std::size_t attention_backward_scratch_bytes(const AttentionShape& shape);
void attention_backward(const AttentionInput& input, const AttentionOutputGradient& output_gradient,
                        const AttentionInputGradient& input_gradient, void* scratch, cudaStream_t stream);

// One step of N rows: turns q and k to position_N[n], writes k' and v into the ring's slot, and attends to the
// min(position + 1, S) filled slots (the window is S). Row n, head h of q, k, v at data + n * row_stride +
// h * head_stride; output [N, H, output_width] contiguous, zero after W; ring [N, S, H, W]. position_N is read, not
// advanced. `chunked`: the step at position p sees those since the last multiple of S alone, and turns are those of
// p mod S.
struct AttentionStep {
  int rows;
  int heads;
  int width;
  Dtype dtype;
  float scale;
  int rotary_width;
  std::int64_t head_stride;
  AttentionRows q, k, v;
  const std::int64_t* position_N;
  AttentionRing ring;
  bool chunked;
  int output_width;  // W .. W rounded up to 64 or 128
  void* output_NHP;
  DropoutKey dropout;  // f_tu: element (row n * H + h, channel u mod S) of a tensor with S channels
};
void attention_step(const AttentionStep& step, cudaStream_t stream);

}  // namespace engram
