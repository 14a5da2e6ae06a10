#include <cstddef>
#include <cstdint>

#include "kernels/block/gradient_sums.h"
#include "kernels/common/fast_math.h"
#include "kernels/recurrences/gate_rows.cuh"
#include "kernels/recurrences/rg_lru/rg_lru.h"

namespace engram {
namespace {

using namespace gate_rows;

constexpr float kExponent = 8, kLeastSquare = 1e-12f;

// log(sigmoid(x)) without a logarithm of 0.
__device__ inline float log_sigmoid(float x) { return fminf(x, 0) - log1pf(expf(-fabsf(x))); }

// An element: what its factor and the root are, and the gates.
struct Element {
  float r, i, keep, root;
  bool has_slope;  // of the root

  // log_factor: 8 log(sigmoid(decay)).
  __device__ Element(float recurrence_logit, float input_logit, float log_factor, bool is_first)
      : r(fast_sigmoid(recurrence_logit)), i(fast_sigmoid(input_logit)) {
    const float log_keep = log_factor * r, square = -expm1f(2 * log_keep);
    keep = expf(log_keep);
    has_slope = !is_first && square >= kLeastSquare;
    root = is_first ? 1.0f : sqrtf(fmaxf(square, kLeastSquare));
  }
};

// What a thread reads of some rows at once; rows that are not there are not read.
template <typename T>
struct Read {
  float recurrence_logit[kAtOnce], input_logit[kAtOnce], u[kAtOnce];
  bool is_first[kAtOnce];

  __device__ Read(const RgLruGates& gates, const Place& place, std::int64_t first) {
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t row = first + k * Place::step();
      const bool there = row < gates.rows;
      const std::int64_t at = row * gates.stride + place.channel;
      recurrence_logit[k] = there ? static_cast<float>(static_cast<const T*>(gates.recurrence_logit)[at]) : 0.0f;
      input_logit[k] = there ? static_cast<float>(static_cast<const T*>(gates.input_logit)[at]) : 0.0f;
      u[k] = there ? gates.u[row * gates.width + place.channel] : 0.0f;
      is_first[k] = there && gates.is_first != nullptr && gates.is_first[row];
    }
  }
  __device__ Element element(int k, float log_factor) const {
    return {recurrence_logit[k], input_logit[k], log_factor, is_first[k]};
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads) forward_kernel(RgLruGates gates, float* keep, float* write) {
  const Place place;
  if (place.channel >= gates.width) return;
  const float log_factor = kExponent * log_sigmoid(gates.decay[place.channel]);
  for (std::int64_t first = place.first(); first < gates.rows; first += kAtOnce * Place::step()) {
    const Read<T> read(gates, place, first);
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t row = first + k * Place::step();
      if (row >= gates.rows) break;
      const Element of = read.element(k, log_factor);
      keep[row * gates.width + place.channel] = of.keep;
      write[row * gates.width + place.channel] = of.root * of.i * read.u[k];
    }
  }
}

template <typename T>
__global__ void __launch_bounds__(kThreads) backward_kernel(RgLruGates gates, const float* d_keep, const float* d_write,
                                                            RgLruGatesGradient gradient, float* decay_sums) {
  const Place place;
  const bool inside = place.channel < gates.width;
  const float decay = inside ? gates.decay[place.channel] : 0.0f, log_factor = kExponent * log_sigmoid(decay);
  float sum = 0;  // of the logarithm's gradient by log(sigmoid(decay)) / 8
  for (std::int64_t first = place.first(); inside && first < gates.rows; first += kAtOnce * Place::step()) {
    const Read<T> read(gates, place, first);
    float of_keep[kAtOnce], of_write[kAtOnce];
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t row = first + k * Place::step(), at = row * gates.width + place.channel;
      of_keep[k] = row < gates.rows ? d_keep[at] : 0.0f;
      of_write[k] = row < gates.rows ? d_write[at] : 0.0f;
    }
#pragma unroll
    for (int k = 0; k < kAtOnce; ++k) {
      const std::int64_t row = first + k * Place::step();
      if (row >= gates.rows) break;
      const Element of = read.element(k, log_factor);
      const float d_root = of_write[k] * of.i * read.u[k];
      float d_log = of_keep[k] * of.keep;
      if (of.has_slope) d_log -= d_root * of.keep * of.keep / of.root;
      sum += d_log * of.r;
      const std::int64_t at = row * gradient.stride + place.channel;
      static_cast<T*>(gradient.recurrence_logit)[at] = static_cast<T>(d_log * log_factor * of.r * (1 - of.r));
      static_cast<T*>(gradient.input_logit)[at] = static_cast<T>(of_write[k] * of.root * read.u[k] * of.i * (1 - of.i));
      gradient.u[row * gates.width + place.channel] = of_write[k] * of.root * of.i;
    }
  }
  // d log(sigmoid(x)) / dx = sigmoid(-x)
  keep_sum(place, sum * kExponent * fast_sigmoid(-decay), gates.width, decay_sums);
}

void check_shape(const RgLruGates& gates, std::int64_t gradient_stride) {
  gate_rows::check_shape("RG-LRU's gates", gates.rows, gates.width, gates.stride, gradient_stride);
}

}  // namespace

void rg_lru_gates_forward(const RgLruGates& gates, float* keep, float* write, cudaStream_t stream) {
  check_shape(gates, gates.stride);
  dispatch_dtype(gates.dtype, [&](auto element) {
    forward_kernel<decltype(element)><<<grid_of(gates.rows, gates.width), kThreads, 0, stream>>>(gates, keep, write);
  });
  check_cuda(cudaGetLastError(), "rg_lru_gates_forward");
}

std::size_t rg_lru_gates_backward_scratch_bytes(const RgLruGates& gates) {
  check_shape(gates, gates.stride);
  return sums_bytes(gates.rows, gates.width);
}

void rg_lru_gates_backward(const RgLruGates& gates, const float* keep_gradient, const float* write_gradient,
                           const RgLruGatesGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(gates, gradient.stride);
  auto* const decay_sums = static_cast<float*>(scratch);
  const dim3 grid = grid_of(gates.rows, gates.width);
  dispatch_dtype(gates.dtype, [&](auto element) {
    backward_kernel<decltype(element)>
        <<<grid, kThreads, 0, stream>>>(gates, keep_gradient, write_gradient, gradient, decay_sums);
  });
  check_cuda(cudaGetLastError(), "rg_lru_gates_backward");
  add_up({vector_sum(decay_sums, static_cast<int>(grid.y), gates.width, gates.width, gradient.decay)}, stream);
}

}  // namespace engram
