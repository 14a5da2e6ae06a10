#include <stdexcept>
#include <string>

#include "kernels/block/column_sums.cuh"
#include "kernels/block/row_norm.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
// Blocks a multiprocessor; of the wider rows, which need more registers, fewer are resident at a time.
constexpr int kForwardResident = 4, kBackwardResident = 3;

// What kLanes lanes hold of one row: kChunks vectors each.
template <typename T, int kLanes, int kChunks>
struct Row {
  RowVector v[kChunks];

  __device__ static int column(int chunk) { return (chunk * kLanes + lane_id() % kLanes) * kVector; }

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
  // x becomes (x - mean) / deviation, or x / rms; returns the divisor's inverse. Elements after the width stay 0.
  template <NormKind kKind>
  __device__ float normalize(int width, float epsilon) {
    if constexpr (kKind == NormKind::kLayer) {
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

// Rows are loaded one step of the loop ahead where registers allow: the sums over a row take as long as the way to
// memory.
template <int kChunks>
constexpr bool kAhead = kChunks == 1;

// The same of a row as it is stored.
template <typename T, int kLanes, int kChunks>
struct StoredRow {
  using R = Row<T, kLanes, kChunks>;
  StoredVector<T> v[kChunks];

  // Zeros where there is no such matrix or row, and in vectors that lie after the width.
  __device__ void load(const void* matrix, std::int64_t stride, const RowNorm& norm, std::int64_t row) {
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
      v[c] = {matrix != nullptr && row < norm.rows && R::column(c) < norm.width,
              static_cast<const T*>(matrix) + row * stride + R::column(c)};
  }
  __device__ R floats() const {
    R row;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) row.v[c] = v[c].floats();
    return row;
  }
};

// Of the columns of a row's chunk.
template <typename R>
__device__ RowVector weight_of(const RowNorm& norm, int chunk) {
  if (norm.weight == nullptr) return {{1, 1, 1, 1, 1, 1, 1, 1}};
  return load_bounded(norm.weight, R::column(chunk), norm.width);
}

// Index of dropout's group that begins at `column`.
__device__ std::int64_t dropout_group(const RowNorm& norm, std::int64_t row, int column) {
  return (row * dropout_row(norm.width) + column) / kDropoutGroup;
}

// Normalises the branch itself where it is neither dropped nor added to.
template <NormKind kKind, typename T, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks == 1 && sizeof(T) == 2 ? kForwardResident : 1)
    forward_kernel(RowNorm norm, ResidualSum sum, T* y) {
  using R = Row<T, kLanes, kChunks>;
  constexpr int kRows = kThreads / kLanes;
  const std::int64_t step = std::int64_t{gridDim.x} * kRows;
  std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes;
  StoredRow<T, kLanes, kChunks> branch, residual;
  const auto load = [&](std::int64_t from) {
    branch.load(sum.branch, sum.branch_stride, norm, from);
    residual.load(sum.residual, norm.stride, norm, from);
  };
  if constexpr (kAhead<kChunks>) load(row);
  RowVector weight[kChunks], bias[kChunks] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) {
    weight[c] = weight_of<R>(norm, c);
    if (kKind == NormKind::kLayer && norm.bias) bias[c] = load_bounded(norm.bias, R::column(c), norm.width);
  }
  // Whole warps stay in the loop: the sums over a row need all lanes.
  for (; row - threadIdx.x / kLanes < norm.rows; row += step) {
    const bool inside = row < norm.rows;
    if constexpr (!kAhead<kChunks>) load(row);
    R x = branch.floats();
    const R added = residual.floats();
    if constexpr (kAhead<kChunks>) load(row + step);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = R::column(c);
      if (column < norm.width) x.v[c] = dropped(sum.dropout, dropout_group(norm, row, column), x.v[c]);
#pragma unroll
      for (int i = 0; i < kVector; ++i) x.v[c].x[i] = column + i < norm.width ? x.v[c].x[i] + added.v[c].x[i] : 0.0f;
      // The norm is that of the rounded sum, which is what the backward pass will read.
      const StoredVector<T> stored(x.v[c]);
      x.v[c] = stored.floats();
      if (sum.x && inside && column < norm.stride) stored.store(static_cast<T*>(sum.x) + row * norm.stride + column);
    }
    x.template normalize<kKind>(norm.width, norm.epsilon);
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
#pragma unroll
      for (int i = 0; i < kVector; ++i) x.v[c].x[i] = x.v[c].x[i] * weight[c].x[i] + bias[c].x[i];
      if (inside && R::column(c) < norm.stride) store_vector(y + row * norm.stride + R::column(c), x.v[c]);
    }
  }
}

// With the normalised row n = x * inverse, g = w dy: dx = inverse (g - n mean(g n) [- mean(g)]), dw = sum dy n, db =
// sum dy.
template <NormKind kKind, typename T, int kLanes, int kChunks>
__global__ void __launch_bounds__(kThreads, kChunks == 1 && sizeof(T) == 2 ? kBackwardResident : 1)
    backward_kernel(RowNorm norm, RowNormGradient gradient, float* __restrict__ weight_sums,
                    float* __restrict__ bias_sums) {
  using R = Row<T, kLanes, kChunks>;
  constexpr int kRows = kThreads / kLanes;
  extern __shared__ float shared[];
  const std::int64_t step = std::int64_t{gridDim.x} * kRows;
  std::int64_t row = std::int64_t{blockIdx.x} * kRows + threadIdx.x / kLanes;
  StoredRow<T, kLanes, kChunks> x, dy, residual;
  const auto load = [&](std::int64_t from) {
    x.load(norm.x, norm.stride, norm, from);
    dy.load(gradient.y, gradient.y_stride, norm, from);
    residual.load(gradient.residual, norm.stride, norm, from);
  };
  if constexpr (kAhead<kChunks>) load(row);
  RowVector weight[kChunks], weight_sum[kChunks] = {}, bias_sum[kChunks] = {};
#pragma unroll
  for (int c = 0; c < kChunks; ++c) weight[c] = weight_of<R>(norm, c);
  const float inverse_width = 1.0f / static_cast<float>(norm.width);
  for (; row - threadIdx.x / kLanes < norm.rows; row += step) {
    const bool inside = row < norm.rows;
    if constexpr (!kAhead<kChunks>) load(row);
    // Zeros outside, which add nothing to the sums.
    R n = x.floats(), g = dy.floats(), d = residual.floats();
    if constexpr (kAhead<kChunks>) load(row + step);
    const float inverse = n.template normalize<kKind>(norm.width, norm.epsilon);
#pragma unroll
    for (int c = 0; c < kChunks; ++c)
#pragma unroll
      for (int i = 0; i < kVector; ++i) {
        weight_sum[c].x[i] += g.v[c].x[i] * n.v[c].x[i];
        if constexpr (kKind == NormKind::kLayer) bias_sum[c].x[i] += g.v[c].x[i];
        g.v[c].x[i] = R::column(c) + i < norm.width ? g.v[c].x[i] * weight[c].x[i] : 0.0f;
      }
    const float along = R::dot(g, n) * inverse_width;
    const float mean = kKind == NormKind::kLayer ? g.sum() * inverse_width : 0.0f;
#pragma unroll
    for (int c = 0; c < kChunks; ++c) {
      const int column = R::column(c);
      if (!inside || column >= norm.stride) continue;
#pragma unroll
      for (int i = 0; i < kVector; ++i)
        if (column + i < norm.width) d.v[c].x[i] += inverse * (g.v[c].x[i] - n.v[c].x[i] * along - mean);
      const std::int64_t offset = row * norm.stride + column;
      if (gradient.x) store_vector(static_cast<T*>(gradient.x) + offset, d.v[c]);
      if (!gradient.dropped) continue;
      if (column < norm.width) d.v[c] = dropped(gradient.dropout, dropout_group(norm, row, column), d.v[c]);
      store_vector(static_cast<T*>(gradient.dropped) + offset, d.v[c]);
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
    if (kKind == NormKind::kLayer && gradient.bias)
      write_block_sums(bias_sum[c], column < columns, column, slot, kRows, columns, shared, bias_sums + own);
  }
}

// other_stride: of the matrix that has one of its own.
void check_shape(const RowNorm& norm, std::int64_t other_stride) {
  if (norm.rows < 1 || norm.width < 1 || norm.width > norm.stride || norm.stride % kVector != 0 || norm.stride > 1024 ||
      other_stride < norm.width || other_stride % kVector != 0)
    throw std::runtime_error("row_norm: " + std::to_string(norm.rows) + " rows of " + std::to_string(norm.width) +
                             " elements, " + std::to_string(norm.stride) + " and " + std::to_string(other_stride) +
                             " apart");
}

// Calls launch.operator()<kKind, T, kLanes, kChunks>().
template <NormKind kKind, typename Launch>
void dispatch(const RowNorm& norm, Launch launch) {
  dispatch_dtype(norm.dtype, [&](auto element) {
    using T = decltype(element);
    if (norm.stride <= 64)
      launch.template operator()<kKind, T, 8, 1>();
    else if (norm.stride <= 128)
      launch.template operator()<kKind, T, 16, 1>();
    else if (norm.stride <= 256)
      launch.template operator()<kKind, T, 32, 1>();
    else if (norm.stride <= 512)
      launch.template operator()<kKind, T, 32, 2>();
    else
      launch.template operator()<kKind, T, 32, 4>();
  });
}
template <typename Launch>
void dispatch(const RowNorm& norm, Launch launch) {
  if (norm.kind == NormKind::kLayer)
    dispatch<NormKind::kLayer>(norm, launch);
  else
    dispatch<NormKind::kRms>(norm, launch);
}

int blocks_of(const RowNorm& norm, int resident) {
  const int lanes = norm.stride <= 64 ? 8 : norm.stride <= 128 ? 16 : 32;
  return row_blocks(norm.rows, kThreads / lanes, resident);
}

}  // namespace

void residual_norm_forward(const RowNorm& norm, const ResidualSum& sum, void* y, cudaStream_t stream) {
  check_shape(norm, sum.branch_stride);
  dispatch(norm, [&]<NormKind kKind, typename T, int kLanes, int kChunks>() {
    forward_kernel<kKind, T, kLanes, kChunks>
        <<<blocks_of(norm, kForwardResident), kThreads, 0, stream>>>(norm, sum, static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "residual_norm_forward");
}

std::size_t row_norm_backward_scratch_bytes(const RowNorm& norm) {
  return std::size_t{2} * blocks_of(norm, kBackwardResident) * norm.stride * sizeof(float);
}

void row_norm_backward(const RowNorm& norm, const RowNormGradient& gradient, void* scratch, cudaStream_t stream) {
  check_shape(norm, gradient.y_stride);
  const int blocks = blocks_of(norm, kBackwardResident);
  auto* const weight_sums = static_cast<float*>(scratch);
  float* const bias_sums = weight_sums + std::int64_t{blocks} * norm.stride;
  dispatch(norm, [&]<NormKind kKind, typename T, int kLanes, int kChunks>() {
    // Every slot holds one vector a lane: kThreads vectors in all.
    backward_kernel<kKind, T, kLanes, kChunks>
        <<<blocks, kThreads, kThreads * kVector * sizeof(float), stream>>>(norm, gradient, weight_sums, bias_sums);
  });
  check_cuda(cudaGetLastError(), "row_norm_backward");
}

std::vector<GradientSum> row_norm_sums(const RowNorm& norm, const RowNormGradient& gradient, const void* scratch) {
  const int blocks = blocks_of(norm, kBackwardResident);
  const auto* const weight_sums = static_cast<const float*>(scratch);
  const float* const bias_sums = weight_sums + std::int64_t{blocks} * norm.stride;
  std::vector<GradientSum> sums{vector_sum(weight_sums, blocks, norm.stride, norm.width, gradient.weight)};
  if (gradient.bias) sums.push_back(vector_sum(bias_sums, blocks, norm.stride, norm.width, gradient.bias));
  return sums;
}

}  // namespace engram
