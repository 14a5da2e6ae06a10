// The recurrence of an independently recurrent network (Li et al. 2018, arXiv:1803.04831, equation 4) over whole
// sequences: of row b and channel d, from h0 on,
//   h_t = relu(b_t + u h_{t-1}),
// u a number a channel. A relu of what came before is no linear map, so that time is not divided, as the linear
// recurrence's is: one thread walks along a channel of a row, its next steps on their way from memory.
//
// Dimensions: B rows, T steps, D channels, each at least 1; B * D < 2^31. Layout: contiguous, float.
// Where h_t is 0 nothing reaches what is before it; NaN stays NaN, forward and backward, as in PyTorch's relu.
// No output may overlap an input or another output. Scratch: 16-byte aligned, any contents.
// All work is queued on `stream`; nothing synchronises. The same input gives the same bits. Devices: 8.0 and later.
// Errors: std::runtime_error for a shape outside the contract or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

namespace engram {

struct ReluRecurrence {
  int batch;
  int time;
  int width;
  const float* weight_D;  // u
  const float* h0_BD;
};

void relu_recurrence_forward(const ReluRecurrence& recurrence, const float* b_BTD, float* h_BTD, cudaStream_t stream);

struct ReluRecurrenceGradient {
  float* weight_D;
  float* b_BTD;
  float* h0_BD;
};
std::size_t relu_recurrence_backward_scratch_bytes(const ReluRecurrence& recurrence);
// h_BTD: as the forward pass wrote it.
void relu_recurrence_backward(const ReluRecurrence& recurrence, const float* h_BTD, const float* h_gradient_BTD,
                              const ReluRecurrenceGradient& gradient, void* scratch, cudaStream_t stream);

}  // namespace engram
