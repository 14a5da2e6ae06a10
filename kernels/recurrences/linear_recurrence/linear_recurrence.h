// The linear recurrence whose channels do not mix, over whole sequences (parallel in time, for learning) and over one
// step (for acting): of row b and channel d, from h0 on,
//   h_t = a_t h_{t-1} + b_t    for t < length_B[b],
// with real or complex numbers, and an `a` of every step or one that does not depend on time and row. LRU (Orvieto et
// al. 2023), S5 (Smith et al. 2023), RG-LRU (De et al. 2024) and minGRU (Feng et al. 2024) have this form. README.md
// beside this file has the way it is computed and the backward pass.
//
// Dimensions: B rows, T steps, D channels, each at least 1; T at most 2^30.
// Types: `number` is how a_BTD, b, h and their gradients are stored. States (h0, the last h) and their gradients, an
// a_D and its gradient are float, of complex numbers complex64. Computed in float.
// Layout: contiguous, a complex number as (real, imaginary). An a of no time is [D].
// Alignment: of an element, 8 bytes for complex64, 4 where its parts are bfloat16. With bfloat16 an even D whose
// tensors are aligned to 4 bytes, states and an a_D to 8, is faster.
// RMS error over RMS where |a| <= 1: at most 1e-6 where float is written and a is of every step, 0.005 where bfloat16
// is written. With a constant |a| <= 0.999 at most 2e-5: the same factors are rounded again and again, and that adds up
// over as many steps as a remembers. (Of the last h and h0's gradient relative to all of h and of b's gradient; of a
// constant a's gradient, a sum whose terms may cancel, relative to the sum of their moduli.)
// The a's of up to 16 steps one after another are multiplied before they meet h: these products must be finite.
// Steps t >= length are never read; h, da and db are zero there.
// Aliasing: no output may overlap an input or another output. Scratch: 16-byte aligned, any contents.
// All work is queued on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

namespace engram {

// kComplexBfloat16: real and imaginary part in bfloat16.
enum class RecurrenceNumber { kFloat32, kBfloat16, kComplex64, kComplexBfloat16 };

struct LinearRecurrence {
  int batch;
  int time;
  int width;
  RecurrenceNumber number;
  bool constant;  // a is [D], else [B, T, D]
  const void* a;
  const void* h0_BD;
  const std::int64_t* length_B;  // on the device, 0 <= length <= T; null: all T
};

// Writes every h, and to last_BD (null: not wanted) that of step length - 1, of an empty row h0. The last h is not
// rounded as h_BTD is.
void linear_recurrence_forward(const LinearRecurrence& recurrence, const void* b_BTD, void* h_BTD, void* last_BD,
                               cudaStream_t stream);

// The gradient of a loss of h_BTD and last_BD. Of a complex z = x + iy it is dL/dx + i dL/dy, as PyTorch has it.
struct LinearRecurrenceOutput {
  const void* h_BTD;  // as the forward pass wrote it
  const void* h_gradient_BTD;
  const void* last_gradient_BD;  // null: zero
};
struct LinearRecurrenceGradient {
  void* a;  // as `a`
  void* b_BTD;
  void* h0_BD;
};
// Scratch is needed for a constant a alone.
std::size_t linear_recurrence_backward_scratch_bytes(const LinearRecurrence& recurrence);
void linear_recurrence_backward(const LinearRecurrence& recurrence, const LinearRecurrenceOutput& output,
                                const LinearRecurrenceGradient& gradient, void* scratch, cudaStream_t stream);

// One step of N rows: h <- a h + b, with the state h_ND updated in place and also written to output_ND as `number`
// stores it. N * D < 2^31.
struct LinearRecurrenceStep {
  int rows;
  int width;
  RecurrenceNumber number;
  bool constant;  // a is [D], else [N, D]
  const void* a;
  const void* b_ND;
  void* h_ND;
  void* output_ND;
};
void linear_recurrence_step(const LinearRecurrenceStep& step, cudaStream_t stream);

}  // namespace engram
