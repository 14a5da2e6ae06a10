// One step of the fast weights of the delayed hybrids (Irie et al., "Blending complementary memory systems in hybrid
// quadratic-linear Transformers", 2025, sections 3.1 and 3.2): they are given the keys and values that a step of
// attention (kernels/attention) lets go of.
//
// For every row n and head h, with the fast weights F, p = position_N[n] and the ring of S slots in which the step at
// position p has slot p mod S:
//   write s by b:  F <- F + b k (v_s - k^T F),  k = u / |u|,  u = silu(k_s turned back),  |u| = sqrt(u . u + 1e-6)
//   read:          o = scale F^T q
//   stream  where p >= S: write the slot p mod S, which holds step p - S, by beta; then read. To be called before
//           attention_step(), which writes step p there.
//   chunk   read; the slot's own strength beta_ring[p mod S] <- beta; then, where p mod S = S - 1, write the slots
//           0 .. S - 1 by beta_ring. To be called after attention_step() with `chunked`, which has written step p.
// Keys in the ring are turned by RoPE as attention.h has it, with rotary_width R, to p mod S with `chunk`, else to the
// position of their step.
//
// Dimensions: N rows, H heads, W head width, 1 <= W <= 128, P an output's width, W <= P <= W rounded up to 64 or 128.
// Element types: q, beta and output are all float or all bfloat16 (`dtype`), the rest is float. Computed in float; RMS
// error over RMS: at most 1e-5 in float, 0.004 where the output is rounded to bfloat16.
// Layout: q of row n and head h at q + n * q_row_stride + h * q_head_stride; all else contiguous. What follows W in the
// output is written as zero. Alignment: to the elements.
// Aliasing: no output may overlap an input or another output. Slots that no step has filled are not read. All work is
// queued on `stream`; nothing synchronises, and nothing of it depends on the host: a graph may capture the step, and
// rows may stand at different positions. The same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "kernels/common/cuda_support.h"
#include "kernels/fast_weights/delayed_memory/delay.h"

namespace engram {

struct DelayedMemoryStep {
  Delay delay;
  int rows;
  int heads;
  int width;
  int output_width;  // P
  int slots;         // S
  Dtype dtype;
  float scale;
  int rotary_width;  // even, 0 .. W
  std::int64_t q_row_stride, q_head_stride;
  const void* q;
  const void* beta_NH;
  const std::int64_t* position_N;  // read, not advanced
  const float *key_ring_NSHW, *value_ring_NSHW;
  float* beta_ring_NSH;  // of a chunk
  float* fast_NHWW;      // F: keys, then values
  void* output_NHP;
};
void delayed_memory_step(const DelayedMemoryStep& step, cudaStream_t stream);

}  // namespace engram
