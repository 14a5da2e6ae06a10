#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/block/elementwise.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kResident = 6;  // blocks a multiprocessor of gelu's kernel, which adds up
// Of the kernels that add up what they pass on: rows of a thread that are on their way from memory together, so that
// few blocks, and few sums of theirs, are enough.
constexpr int kRowsAtOnce = 4, kResidentOfSums = 2;

// One thread for each group of dropout: eight channels of one row, of which the last may lie outside.
template <typename T, bool kAligned>
__global__ void __launch_bounds__(kThreads) dropout_add_kernel(DropoutAdd input, T* __restrict__ y) {
  const unsigned groups = (input.stride + kDropoutGroup - 1) / kDropoutGroup;
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, row = i / groups, group = i % groups;
  if (row >= input.rows) return;
  const int column = static_cast<int>(group) * kVector;
  const T* const x = static_cast<const T*>(input.x) + row * input.x_stride + column;
  const std::int64_t offset = std::int64_t{row} * input.stride + column;
  const T* const residual = input.residual ? static_cast<const T*>(input.residual) + offset : nullptr;
  RowVector v = {}, added = {};
  if (column < input.width) {
    if constexpr (kAligned) {
      v = load_vector(x);
      if (residual) added = load_vector(residual);
    } else {
#pragma unroll
      for (int j = 0; j < kVector; ++j)
        if (column + j < input.width) {
          v.x[j] = static_cast<float>(x[j]);
          if (residual) added.x[j] = static_cast<float>(residual[j]);
        }
    }
    v = dropped(input.dropout, row * (dropout_row(input.width) / kDropoutGroup) + group, v);
#pragma unroll
    for (int j = 0; j < kVector; ++j) v.x[j] = column + j < input.width ? v.x[j] + added.x[j] : 0.0f;
  }
  if constexpr (kAligned) {
    store_vector(y + offset, v);
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j)
      if (column + j < input.stride) y[offset + j] = static_cast<T>(v.x[j]);
  }
}

// Where this thread's vectors stand. 32 bits count the vectors: dividing 64 would cost more than all the rest.
struct SwiGluPlace {
  bool inside;
  std::int64_t gate, hidden;

  __device__ SwiGluPlace(std::int64_t rows, int inner) {
    const unsigned vectors = inner / kVector, i = blockIdx.x * kThreads + threadIdx.x, row = i / vectors;
    inside = row < rows;
    gate = std::int64_t{row} * 2 * inner + i % vectors * kVector;
    hidden = std::int64_t{i} * kVector;
  }
};

template <typename T>
__global__ void __launch_bounds__(kThreads)
    swiglu_forward_kernel(std::int64_t rows, int inner, const T* __restrict__ gate_up, T* __restrict__ hidden) {
  const SwiGluPlace place(rows, inner);
  if (!place.inside) return;
  RowVector g = load_vector(gate_up + place.gate);
  const RowVector u = load_vector(gate_up + place.gate + inner);
#pragma unroll
  for (int j = 0; j < kVector; ++j) g.x[j] = silu(g.x[j]) * u.x[j];
  store_vector(hidden + place.hidden, g);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    swiglu_backward_kernel(std::int64_t rows, int inner, const T* __restrict__ gate_up, const T* __restrict__ d_hidden,
                           T* __restrict__ d_gate_up) {
  const SwiGluPlace place(rows, inner);
  if (!place.inside) return;
  RowVector g = load_vector(gate_up + place.gate), u = load_vector(gate_up + place.gate + inner);
  const RowVector d = load_vector(d_hidden + place.hidden);
#pragma unroll
  for (int j = 0; j < kVector; ++j) {
    const float s = fast_sigmoid(g.x[j]), up = u.x[j];
    u.x[j] = d.x[j] * g.x[j] * s;
    g.x[j] = d.x[j] * up * s * (1.0f + g.x[j] * (1.0f - s));
  }
  store_vector(d_gate_up + place.gate, g);
  store_vector(d_gate_up + place.gate + inner, u);
}

// A thread's place in a block that takes kThreads / vectors rows at a time: a vector of columns of one of them.
struct RowPlace {
  __device__ explicit RowPlace(int columns)
      : slots(kThreads / (columns / kVector)),
        slot(threadIdx.x / (columns / kVector)),
        column(threadIdx.x % (columns / kVector) * kVector) {}
  __device__ bool has_rows() const { return slot < slots; }

  int slots, slot, column;
};

// Goes through rows of two matrices and writes the block's part of a sum over them. asked(row, its vectors) asks for
// vectors of a row, of kRowsAtOnce rows before the first is taken; taken(row, both vectors, the sum) adds to the sum.
template <typename T, class Asked, class Taken>
__device__ void sum_over_rows(std::int64_t rows, int columns, const RowPlace& place, float* sums, const Asked& asked,
                              const Taken& taken) {
  extern __shared__ float shared[];
  RowVector sum = {};
  const std::int64_t step = std::int64_t{gridDim.x} * place.slots;
  if (place.has_rows())
    for (std::int64_t first = std::int64_t{blockIdx.x} * place.slots + place.slot; first < rows;
         first += kRowsAtOnce * step) {
      StoredVector<T> stored[kRowsAtOnce][2];
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r)
        if (first + r * step < rows) asked(first + r * step, stored[r]);
#pragma unroll
      for (int r = 0; r < kRowsAtOnce; ++r)
        if (first + r * step < rows) taken(first + r * step, stored[r][0].floats(), stored[r][1].floats(), sum);
    }
  write_block_sums(sum, place.has_rows(), place.column, place.slot, place.slots, columns, shared,
                   sums + std::int64_t{blockIdx.x} * columns);
}

template <typename T>
__global__ void __launch_bounds__(kThreads) relu_bias_kernel(ReluBiasGradient gradient, float* __restrict__ sums) {
  const RowPlace place(gradient.columns);
  const auto asked = [&](std::int64_t row, StoredVector<T>(&of)[2]) {
    of[0] = {true, static_cast<const T*>(gradient.dy) + row * gradient.dy_stride + place.column};
    of[1] = {gradient.y != nullptr, static_cast<const T*>(gradient.y) + row * gradient.y_stride + place.column};
  };
  sum_over_rows<T>(gradient.rows, gradient.columns, place, sums, asked,
                   [&](std::int64_t row, RowVector d, const RowVector& y, RowVector& sum) {
#pragma unroll
                     for (int i = 0; i < kVector; ++i) {
                       if (gradient.y && !(y.x[i] > 0)) d.x[i] = gradient.slope == 0 ? 0.0f : gradient.slope * d.x[i];
                       sum.x[i] += d.x[i];
                     }
                     if (gradient.dx)
                       store_vector(static_cast<T*>(gradient.dx) + row * gradient.dx_stride + place.column, d);
                   });
}

// One thread a vector.
template <typename T>
__global__ void __launch_bounds__(kThreads) scaled_add_kernel(ScaledAdd input, const T* z, T* y) {
  const unsigned vectors = input.columns / kVector, i = blockIdx.x * kThreads + threadIdx.x;
  if (i / vectors >= input.rows) return;
  const std::int64_t at = std::int64_t{i} * kVector;
  const RowVector x = load_vector(static_cast<const T*>(input.x) + at);
  const RowVector scale = load_vector(input.scale + i % vectors * kVector);
  RowVector sum = load_vector(z + at);
#pragma unroll
  for (int j = 0; j < kVector; ++j) sum.x[j] += scale.x[j] * x.x[j];
  store_vector(y + at, sum);
}

template <typename T>
__global__ void __launch_bounds__(kThreads)
    scaled_add_backward_kernel(ScaledAdd input, const T* dy, T* dx, float* __restrict__ sums) {
  const RowPlace place(input.columns);
  const RowVector scale = place.has_rows() ? load_vector(input.scale + place.column) : RowVector{};
  const auto asked = [&](std::int64_t row, StoredVector<T>(&of)[2]) {
    const std::int64_t at = row * input.columns + place.column;
    of[0] = {true, dy + at};
    of[1] = {true, static_cast<const T*>(input.x) + at};
  };
  sum_over_rows<T>(input.rows, input.columns, place, sums, asked,
                   [&](std::int64_t row, RowVector d, const RowVector& x, RowVector& sum) {
#pragma unroll
                     for (int i = 0; i < kVector; ++i) {
                       sum.x[i] += d.x[i] * x.x[i];
                       d.x[i] *= scale.x[i];
                     }
                     store_vector(dx + row * input.columns + place.column, d);
                   });
}

// gelu(z) = z sigmoid(2 u), u = sqrt(2 / pi) (z + 0.044715 z^3).
constexpr float kGeluSlope = 1.5957691216057308f, kGeluCube = 0.044715f;  // 2 sqrt(2 / pi)

__device__ inline float gelu(float z) { return z * fast_sigmoid(kGeluSlope * (z + kGeluCube * z * z * z)); }
__device__ inline float gelu_derivative(float z) {
  const float s = fast_sigmoid(kGeluSlope * (z + kGeluCube * z * z * z));
  return s + z * s * (1.0f - s) * kGeluSlope * (1.0f + 3 * kGeluCube * z * z);
}

// Columns that a block takes; a wider matrix has several in the grid's second dimension.
constexpr int kBlockColumns = 1024;

// With kBackward y is the gradient of y, x's is written to `out` and its sums to `sums`.
template <typename T, bool kBackward>
__global__ void __launch_bounds__(kThreads)
    gelu_bias_kernel(GeluBias input, const T* y, T* out, float* __restrict__ sums) {
  extern __shared__ float shared[];
  const int begin = static_cast<int>(blockIdx.y) * kBlockColumns, columns = min(input.columns - begin, kBlockColumns);
  const RowPlace place(columns);
  RowVector sum = {};
  if (place.has_rows()) {
    const RowVector bias = load_bounded(input.bias, begin + place.column, input.width);
    for (std::int64_t row = std::int64_t{blockIdx.x} * place.slots + place.slot; row < input.rows;
         row += std::int64_t{gridDim.x} * place.slots) {
      const std::int64_t offset = row * input.columns + begin + place.column;
      RowVector x = load_vector(static_cast<const T*>(input.x) + offset);
      const RowVector d = kBackward ? load_vector(y + offset) : RowVector{};
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        const float z = x.x[i] + bias.x[i];
        x.x[i] = kBackward ? d.x[i] * gelu_derivative(z) : gelu(z);
        if (kBackward) sum.x[i] += x.x[i];
      }
      store_vector(out + offset, x);
    }
  }
  if constexpr (kBackward)
    write_block_sums(sum, place.has_rows(), place.column, place.slot, place.slots, columns, shared,
                     sums + std::int64_t{blockIdx.x} * input.columns + begin);
}

int blocks_of(const GeluBias& input) {
  return row_blocks(input.rows, kThreads / (std::min(input.columns, kBlockColumns) / kVector), kResident);
}

template <bool kBackward>
void launch_gelu_bias(const GeluBias& input, const void* y, void* out, float* sums, cudaStream_t stream) {
  if (input.rows < 1 || input.columns < kVector || input.columns % kVector != 0 || input.width < 0 ||
      input.width > input.columns)
    throw std::runtime_error("gelu_bias: " + std::to_string(input.rows) + " rows of " + std::to_string(input.columns) +
                             " columns, a bias of " + std::to_string(input.width));
  const dim3 grid(blocks_of(input), (input.columns + kBlockColumns - 1) / kBlockColumns);
  const std::size_t shared = kBackward ? kThreads * kVector * sizeof(float) : 0;
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    gelu_bias_kernel<T, kBackward>
        <<<grid, kThreads, shared, stream>>>(input, static_cast<const T*>(y), static_cast<T*>(out), sums);
  });
  check_cuda(cudaGetLastError(), "gelu_bias");
}

int blocks_of(const ReluBiasGradient& gradient) {
  return row_blocks(gradient.rows, kRowsAtOnce * (kThreads / (gradient.columns / kVector)), kResidentOfSums);
}

int blocks_of(const ScaledAdd& input) {
  return row_blocks(input.rows, kRowsAtOnce * (kThreads / (input.columns / kVector)), kResidentOfSums);
}

void check_shape(const ScaledAdd& input) {
  if (input.rows < 1 || input.columns < kVector || input.columns % kVector != 0 || input.columns > 1024 ||
      input.rows * (input.columns / kVector) > INT32_MAX)
    throw std::runtime_error("scaled_add: " + std::to_string(input.rows) + " rows of " + std::to_string(input.columns) +
                             " columns");
}

// As many blocks as `threads` need.
unsigned blocks_for(std::int64_t threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

void dropout_add(const DropoutAdd& input, void* y, cudaStream_t stream) {
  const std::int64_t groups = (input.stride + kVector - 1) / kVector;
  if (input.rows < 1 || input.width < 1 || input.width > input.stride || input.width > input.x_stride ||
      input.rows * groups > INT32_MAX)
    throw std::runtime_error("dropout_add: " + std::to_string(input.rows) + " rows of " + std::to_string(input.width) +
                             " elements, " + std::to_string(input.x_stride) + " and " + std::to_string(input.stride) +
                             " apart");
  const auto addresses = reinterpret_cast<std::uintptr_t>(input.x) | reinterpret_cast<std::uintptr_t>(y) |
                         reinterpret_cast<std::uintptr_t>(input.residual);
  const bool aligned = input.stride % kVector == 0 && input.x_stride % kVector == 0 && addresses % 16 == 0;
  const auto blocks = static_cast<unsigned>((input.rows * groups + kThreads - 1) / kThreads);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    if (aligned)
      dropout_add_kernel<T, true><<<blocks, kThreads, 0, stream>>>(input, static_cast<T*>(y));
    else
      dropout_add_kernel<T, false><<<blocks, kThreads, 0, stream>>>(input, static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "dropout_add");
}

void swiglu_forward(std::int64_t rows, int inner, Dtype dtype, const void* gate_up, void* hidden, cudaStream_t stream) {
  if (rows < 1 || inner < kVector || inner % kVector != 0 || rows * (inner / kVector) > INT32_MAX)
    throw std::runtime_error("swiglu: " + std::to_string(rows) + " rows of inner width " + std::to_string(inner));
  dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    swiglu_forward_kernel<<<blocks_for(rows * (inner / kVector)), kThreads, 0, stream>>>(
        rows, inner, static_cast<const T*>(gate_up), static_cast<T*>(hidden));
  });
  check_cuda(cudaGetLastError(), "swiglu_forward");
}

void swiglu_backward(std::int64_t rows, int inner, Dtype dtype, const void* gate_up, const void* hidden_gradient,
                     void* gate_up_gradient, cudaStream_t stream) {
  if (rows < 1 || inner < kVector || inner % kVector != 0 || rows * (inner / kVector) > INT32_MAX)
    throw std::runtime_error("swiglu: " + std::to_string(rows) + " rows of inner width " + std::to_string(inner));
  dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    swiglu_backward_kernel<<<blocks_for(rows * (inner / kVector)), kThreads, 0, stream>>>(
        rows, inner, static_cast<const T*>(gate_up), static_cast<const T*>(hidden_gradient),
        static_cast<T*>(gate_up_gradient));
  });
  check_cuda(cudaGetLastError(), "swiglu_backward");
}

void scaled_add(const ScaledAdd& input, const void* z, void* y, cudaStream_t stream) {
  check_shape(input);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    scaled_add_kernel<<<blocks_for(input.rows * (input.columns / kVector)), kThreads, 0, stream>>>(
        input, static_cast<const T*>(z), static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "scaled_add");
}

std::size_t scaled_add_backward_scratch_bytes(const ScaledAdd& input) {
  return std::size_t{1} * blocks_of(input) * input.columns * sizeof(float);
}

void scaled_add_backward(const ScaledAdd& input, const void* dy, void* dx, void* scratch, cudaStream_t stream) {
  check_shape(input);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    scaled_add_backward_kernel<<<blocks_of(input), kThreads, kThreads * kVector * sizeof(float), stream>>>(
        input, static_cast<const T*>(dy), static_cast<T*>(dx), static_cast<float*>(scratch));
  });
  check_cuda(cudaGetLastError(), "scaled_add_backward");
}

GradientSum scaled_add_sum(const ScaledAdd& input, const void* scratch, float* scale_gradient) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(input), input.columns, input.columns, scale_gradient);
}

void gelu_bias_forward(const GeluBias& input, void* y, cudaStream_t stream) {
  launch_gelu_bias<false>(input, nullptr, y, nullptr, stream);
}

std::size_t gelu_bias_backward_scratch_bytes(const GeluBias& input) {
  return std::size_t{1} * blocks_of(input) * input.columns * sizeof(float);
}

void gelu_bias_backward(const GeluBias& input, const void* y_gradient, void* x_gradient, void* scratch,
                        cudaStream_t stream) {
  launch_gelu_bias<true>(input, y_gradient, x_gradient, static_cast<float*>(scratch), stream);
}

GradientSum gelu_bias_sum(const GeluBias& input, const void* scratch, float* bias_gradient) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(input), input.columns, input.width, bias_gradient);
}

std::size_t relu_bias_backward_scratch_bytes(const ReluBiasGradient& gradient) {
  return std::size_t{1} * blocks_of(gradient) * gradient.columns * sizeof(float);
}

void relu_bias_backward(const ReluBiasGradient& gradient, void* scratch, cudaStream_t stream) {
  if (gradient.rows < 1 || gradient.columns < kVector || gradient.columns % kVector != 0 || gradient.columns > 1024)
    throw std::runtime_error("relu_bias_backward: " + std::to_string(gradient.rows) + " rows of " +
                             std::to_string(gradient.columns) + " columns");
  const int blocks = blocks_of(gradient);
  dispatch_dtype(gradient.dtype, [&](auto element) {
    using T = decltype(element);
    relu_bias_kernel<T>
        <<<blocks, kThreads, kThreads * kVector * sizeof(float), stream>>>(gradient, static_cast<float*>(scratch));
  });
  check_cuda(cudaGetLastError(), "relu_bias_backward");
}

GradientSum relu_bias_sum(const ReluBiasGradient& gradient, const void* scratch) {
  return vector_sum(static_cast<const float*>(scratch), blocks_of(gradient), gradient.columns, gradient.columns,
                    gradient.bias);
}

}  // namespace engram
