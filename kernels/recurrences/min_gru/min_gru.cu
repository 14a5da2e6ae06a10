#include <cstddef>
#include <cstdint>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/fast_math.h"
#include "kernels/recurrences/gate_rows.cuh"
#include "kernels/recurrences/min_gru/min_gru.h"

namespace engram {
namespace {

using namespace gate_rows;

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(MinGruGates gates, float* keep, float* write) {
  const Place place;
  if (place.channel >= gates.width) return;
  const T* const gate = static_cast<const T*>(gates.gate) + place.channel;
  const T* const candidate = static_cast<const T*>(gates.candidate) + place.channel;
  const float bias = gates.bias[place.channel];
  for (std::int64_t first = place.first(); first < gates.rows; first += kAtOnce * Place::step()) {
    float g[kAtOnce], c[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row = first + i * Place::step();
      g[i] = row < gates.rows ? static_cast<float>(gate[row * gates.stride]) : 0.0f;
      c[i] = row < gates.rows ? static_cast<float>(candidate[row * gates.stride]) : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row = first + i * Place::step();
      if (row >= gates.rows) break;
      const std::int64_t at = row * gates.width + place.channel;
      // Both by the sigmoid: 1 - z would lose what a gate near 1 keeps.
      keep[at] = fast_sigmoid(-(g[i] + bias));
      write[at] = fast_sigmoid(g[i] + bias) * c[i];
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(MinGruGates gates, const float* d_keep, const float* d_write, MinGruGatesGradient gradient,
                    float* bias_sums) {
  const Place place;
  const bool inside = place.channel < gates.width;
  const T* const gate = static_cast<const T*>(gates.gate) + place.channel;
  const T* const candidate = static_cast<const T*>(gates.candidate) + place.channel;
  const float bias = inside ? gates.bias[place.channel] : 0.0f;
  float sum = 0;
  for (std::int64_t first = place.first(); inside && first < gates.rows; first += kAtOnce * Place::step()) {
    float g[kAtOnce], c[kAtOnce], of_keep[kAtOnce], of_write[kAtOnce];
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row = first + i * Place::step();
      const bool there = row < gates.rows;
      g[i] = there ? static_cast<float>(gate[row * gates.stride]) : 0.0f;
      c[i] = there ? static_cast<float>(candidate[row * gates.stride]) : 0.0f;
      of_keep[i] = there ? d_keep[row * gates.width + place.channel] : 0.0f;
      of_write[i] = there ? d_write[row * gates.width + place.channel] : 0.0f;
    }
#pragma unroll
    for (int i = 0; i < kAtOnce; ++i) {
      const std::int64_t row = first + i * Place::step();
      if (row >= gates.rows) break;
      const float z = fast_sigmoid(g[i] + bias), kept = fast_sigmoid(-(g[i] + bias));
      const float d_gate = (of_write[i] * c[i] - of_keep[i]) * z * kept;
      sum += d_gate;
      static_cast<T*>(gradient.gate)[row * gradient.stride + place.channel] = static_cast<T>(d_gate);
      static_cast<T*>(gradient.candidate)[row * gradient.stride + place.channel] = static_cast<T>(of_write[i] * z);
    }
  }
  keep_sum(place, sum, gates.width, bias_sums);
}

void check_shape(const MinGruGates& gates, std::int64_t gradient_stride) {
  gate_rows::check_shape("minGRU's gates", gates.rows, gates.width, gates.stride, gradient_stride);
}

}  // namespace

void min_gru_gates_forward(const MinGruGates& gates, float* keep, float* write, cudaStream_t stream) {
  check_shape(gates, gates.stride);
  dispatch_dtype(gates.dtype, [&](auto element) {
    forward_kernel<decltype(element)><<<grid_of(gates.rows, gates.width), kThreads, 0, stream>>>(gates, keep, write);
  });
  check_cuda(cudaGetLastError(), "min_gru_gates_forward");
}

std::size_t min_gru_gates_backward_scratch_bytes(const MinGruGates& gates) {
  check_shape(gates, gates.stride);
  return sums_bytes(gates.rows, gates.width);
}

void min_gru_gates_backward(const MinGruGates& gates, const float* keep_gradient, const float* write_gradient,
                            const MinGruGatesGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(gates, gradient.stride);
  auto* const bias_sums = static_cast<float*>(scratch);
  const dim3 grid = grid_of(gates.rows, gates.width);
  dispatch_dtype(gates.dtype, [&](auto element) {
    backward_kernel<decltype(element)>
        <<<grid, kThreads, 0, stream>>>(gates, keep_gradient, write_gradient, gradient, bias_sums);
  });
  check_cuda(cudaGetLastError(), "min_gru_gates_backward");
  add_up({vector_sum(bias_sums, static_cast<int>(grid.y), gates.width, gates.width, gradient.bias)}, stream);
}

}  // namespace engram
