#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/cuda_support.h"
#include "kernels/recurrences/relu_recurrence/relu_recurrence.h"
#include "kernels/recurrences/relu_recurrence/walk.h"

namespace engram {
namespace {

using relu_recurrence::Channel;

constexpr int kThreads = 128;

__device__ int index_of_thread() { return static_cast<int>(blockIdx.x * kThreads + threadIdx.x); }

// Where the channel's first step stands.
__device__ std::int64_t first_step(const ReluRecurrence& r, int i) {
  return std::int64_t{i / r.width} * r.time * r.width + i % r.width;
}
__device__ Channel channel_of(const ReluRecurrence& r, int i) {
  return {r.time, r.width, r.weight_D[i % r.width], r.h0_BD[i]};
}

__global__ void __launch_bounds__(kThreads) forward_kernel(ReluRecurrence r, const float* b_BTD, float* h_BTD) {
  const int i = index_of_thread();
  if (i >= r.batch * r.width) return;
  const std::int64_t first = first_step(r, i);
  relu_recurrence::forward(channel_of(r, i), b_BTD + first, h_BTD + first);
}

__global__ void __launch_bounds__(kThreads) backward_kernel(ReluRecurrence r, const float* h_BTD, const float* d_h_BTD,
                                                            float* d_b_BTD, float* d_weight_BD, float* d_h0_BD) {
  const int i = index_of_thread();
  if (i >= r.batch * r.width) return;
  const std::int64_t first = first_step(r, i);
  const relu_recurrence::ChannelGradient d =
      relu_recurrence::backward(channel_of(r, i), h_BTD + first, d_h_BTD + first, d_b_BTD + first);
  d_weight_BD[i] = d.weight;
  d_h0_BD[i] = d.h0;
}

void check_shape(const ReluRecurrence& r) {
  if (r.batch < 1 || r.time < 1 || r.width < 1 ||
      std::int64_t{r.batch} * r.width > std::numeric_limits<int>::max() - kThreads)
    throw std::runtime_error("relu recurrence: " + std::to_string(r.batch) + " rows of " + std::to_string(r.time) +
                             " steps of " + std::to_string(r.width) + " channels");
}

unsigned blocks_of(const ReluRecurrence& r) {
  return static_cast<unsigned>((std::int64_t{r.batch} * r.width + kThreads - 1) / kThreads);
}

}  // namespace

void relu_recurrence_forward(const ReluRecurrence& recurrence, const float* b_BTD, float* h_BTD, cudaStream_t stream) {
  check_shape(recurrence);
  forward_kernel<<<blocks_of(recurrence), kThreads, 0, stream>>>(recurrence, b_BTD, h_BTD);
  check_cuda(cudaGetLastError(), "relu_recurrence_forward");
}

std::size_t relu_recurrence_backward_scratch_bytes(const ReluRecurrence& recurrence) {
  check_shape(recurrence);
  return sizeof(float) * recurrence.batch * recurrence.width;
}

void relu_recurrence_backward(const ReluRecurrence& recurrence, const float* h_BTD, const float* h_gradient_BTD,
                              const ReluRecurrenceGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(recurrence);
  auto* const of_rows = static_cast<float*>(scratch);
  backward_kernel<<<blocks_of(recurrence), kThreads, 0, stream>>>(recurrence, h_BTD, h_gradient_BTD, gradient.b_BTD,
                                                                  of_rows, gradient.h0_BD);
  check_cuda(cudaGetLastError(), "relu_recurrence_backward");
  add_up({vector_sum(of_rows, recurrence.batch, recurrence.width, recurrence.width, gradient.weight_D)}, stream);
}

}  // namespace engram
