#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/block/row_norm.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kResident = 4;  // blocks a multiprocessor

// What kLanes lanes hold of one row: kChunks vectors each.
template <typename T, int kLanes, int kChunks>
struct Row {
  RowVector v[kChunks];

  __device__ static int column(int chunk) { return (chunk * kLanes + lane_id() % kLanes) * kVector; }

  __device__ void load(const T* row, int stride) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c) v[c] = column(c) < stride ? load_vector(row + column(c)) : RowVector{};
  }
  __device__ float sum() const {
    float total = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVector; ++i) total += v[c].x[i];
    return row_sum<kLanes>(total);
  }
  __device__ static float dot(const Row& a, const Row& b) {
    float total = 0;
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVector; ++i) total += a.v[c].x[i] * b.v[c].x[i];
    return row_sum<kLanes>(total);
  }
  // x becomes (x - mean) / deviation, or x / rms; returns the divisor's inverse. Elements behind the width stay 0.
  __device__ float normalize(NormKind kind, int width, float epsilon) {
    if (kind == NormKind::kLayer) {
      const float mean = sum() / static_cast<float>(width);
#pragma unroll
      for (int c = 0; c < kChunks; ++c)
#pragma unroll
        for (int i = 0; i < kVector; ++i) v[c].x[i] = column(c) + i < width ? v[c].x[i] - mean : 0.0f;
    }
    const float inverse = rsqrtf(dot(*this, *this) / static_cast<float>(width) + epsilon);
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVector; ++i) v[c].x[i] *= inverse;
    return inverse;
  }
};

template <typename T, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads) forward_kernel(RowNorm norm, T* __restrict__ y) {
  using R = Row<T, kLanes, kChunks>;
  constexpr int kRows = kThreads / kLanes;
  RowVector weight[kChunks], bias[kChunks];
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    weight[c] = load_bounded(norm.weight, R::column(c), norm.width);
    bias[c] = norm.bias ? load_bounded(norm.bias, R::column(c), norm.width) : RowVector{};
  }
  // Whole warps stay in the loop: the sums over a row need all lanes.
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRows; first < norm.rows;
       first += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t row = first + threadIdx.x / kLanes;
    const bool inside = row < norm.rows;
    const std::int64_t offset = (inside ? row : norm.rows - 1) * norm.stride;
    R x;
    x.load(static_cast<const T*>(norm.x) + offset, norm.stride);
    x.normalize(norm.kind, norm.width, norm.epsilon);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) x.v[c].x[i] = x.v[c].x[i] * weight[c].x[i] + bias[c].x[i];
      if (inside && R::column(c) < norm.stride) store_vector(y + offset + R::column(c), x.v[c]);
    }
  }
}

// With the normalised row n = x * inverse, g = w dy: dx = inverse (g - n mean(g n) [- mean(g)]), dw = sum dy n, db =
// sum dy.
template <typename T, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads)
    backward_kernel(RowNorm norm, RowNormGradient gradient, float* __restrict__ weight_sums,
                    float* __restrict__ bias_sums) {
  using R = Row<T, kLanes, kChunks>;
  constexpr int kRows = kThreads / kLanes;
  extern __shared__ float shared[];
  RowVector weight[kChunks], weight_sum[kChunks] = {}, bias_sum[kChunks] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) weight[c] = load_bounded(norm.weight, R::column(c), norm.width);
  const float inverse_width = 1.0f / static_cast<float>(norm.width);
  for (std::int64_t first = std::int64_t{blockIdx.x} * kRows; first < norm.rows;
       first += std::int64_t{gridDim.x} * kRows) {
    const std::int64_t row = first + threadIdx.x / kLanes;
    const bool inside = row < norm.rows;
    const std::int64_t offset = (inside ? row : norm.rows - 1) * norm.stride;
    R n, g;
    n.load(static_cast<const T*>(norm.x) + offset, norm.stride);
    g.load(static_cast<const T*>(gradient.y) + offset, norm.stride);
    const float inverse = n.normalize(norm.kind, norm.width, norm.epsilon);
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        if (inside) {
          weight_sum[c].x[i] += g.v[c].x[i] * n.v[c].x[i];
          bias_sum[c].x[i] += g.v[c].x[i];
        }
        g.v[c].x[i] *= weight[c].x[i];
      }
    const float along = R::dot(g, n) * inverse_width;
    const float mean = norm.kind == NormKind::kLayer ? g.sum() * inverse_width : 0.0f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      if (!inside || R::column(c) >= norm.stride) continue;
      RowVector dx = gradient.residual ? load_vector(static_cast<const T*>(gradient.residual) + offset + R::column(c))
                                       : RowVector{};
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        if (R::column(c) + i < norm.width) dx.x[i] += inverse * (g.v[c].x[i] - n.v[c].x[i] * along - mean);
      store_vector(static_cast<T*>(gradient.x) + offset + R::column(c), dx);
    }
  }
  const int slot = threadIdx.x / kLanes;
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    // One call a chunk covers the columns of that chunk alone.
    const int begin = c * kLanes * kVector, columns = min(norm.stride - begin, kLanes * kVector);
    const int column = R::column(c) - begin;
    const std::int64_t own = std::int64_t{blockIdx.x} * norm.stride + begin;
    write_block_sums(weight_sum[c], column < columns, column, slot, kRows, columns, shared, weight_sums + own);
    if (gradient.bias)
      write_block_sums(bias_sum[c], column < columns, column, slot, kRows, columns, shared, bias_sums + own);
  }
}

void check_shape(const RowNorm& norm) {
  if (norm.rows < 1 || norm.width < 1 || norm.width > norm.stride || norm.stride % kVector != 0 || norm.stride > 1024)
    throw std::runtime_error("row_norm: " + std::to_string(norm.rows) + " rows of " + std::to_string(norm.width) +
                             " elements, " + std::to_string(norm.stride) + " apart");
}

// Calls launch.operator()<T, kLanes, kChunks>().
template <typename Launch>
void dispatch(const RowNorm& norm, Launch launch) {
  dispatch_dtype(norm.dtype, [&](auto element) {
    using T = decltype(element);
    if (norm.stride <= 128)
      launch.template operator()<T, 16, 1>();
    else if (norm.stride <= 256)
      launch.template operator()<T, 32, 1>();
    else if (norm.stride <= 512)
      launch.template operator()<T, 32, 2>();
    else
      launch.template operator()<T, 32, 4>();
  });
}

int blocks_of(const RowNorm& norm) {
  return row_blocks(norm.rows, kThreads / (norm.stride <= 128 ? 16 : 32), kResident);
}

}  // namespace

void row_norm_forward(const RowNorm& norm, void* y, cudaStream_t stream) {
  check_shape(norm);
  dispatch(norm, [&]<typename T, int kLanes, int kChunks>() {
    forward_kernel<T, kLanes, kChunks><<<blocks_of(norm), kThreads, 0, stream>>>(norm, static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "row_norm_forward");
}

std::size_t row_norm_backward_scratch_bytes(const RowNorm& norm) {
  return std::size_t{2} * blocks_of(norm) * norm.stride * sizeof(float);
}

void row_norm_backward(const RowNorm& norm, const RowNormGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(norm);
  const int blocks = blocks_of(norm);
  auto* const weight_sums = static_cast<float*>(scratch);
  float* const bias_sums = weight_sums + std::int64_t{blocks} * norm.stride;
  dispatch(norm, [&]<typename T, int kLanes, int kChunks>() {
    // Every slot holds one vector a lane: kThreads vectors in all.
    backward_kernel<T, kLanes, kChunks>
        <<<blocks, kThreads, kThreads * kVector * sizeof(float), stream>>>(norm, gradient, weight_sums, bias_sums);
  });
  check_cuda(cudaGetLastError(), "row_norm_backward");
}

void row_norm_add_sums(const RowNorm& norm, const RowNormGradient& gradient, const void* scratch, cudaStream_t stream) {
  const int blocks = blocks_of(norm);
  const auto* const weight_sums = static_cast<const float*>(scratch);
  const float* const bias_sums = weight_sums + std::int64_t{blocks} * norm.stride;
  add_block_sums(weight_sums, blocks, norm.stride, norm.width, gradient.weight, stream);
  if (gradient.bias) add_block_sums(bias_sums, blocks, norm.stride, norm.width, gradient.bias, stream);
}

}  // namespace engram
