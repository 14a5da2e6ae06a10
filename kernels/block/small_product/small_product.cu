#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/block/small_product/small_product.h"
#include "kernels/common/launch.cuh"
#include "kernels/common/shared_tile.cuh"
#include "kernels/common/tensor_core.cuh"

namespace engram {
namespace {

constexpr int kThreads = 2 * kTileRows;  // a warp for 16 rows
constexpr int kTileColumns = 64, kStep = 64, kStages = 2;

struct ProductArguments {
  std::int64_t rows, a_stride, b_stride, c_stride;
  int inner, columns;
  const bf16 *a, *b;
  const void* bias;
  void* c;
  bool relu;
};

// A step's operands.
struct Stage {
  Tile<kTileRows, kStep> a;
  Tile<kTileColumns, kStep> b;  // as it is given: rows of N or of K
};
static_assert(kTileColumns == kStep);

__host__ __device__ inline int steps_of(int inner) { return (inner + kStep - 1) / kStep; }

// sum += a b of a step for a warp's rows, from `warp_row` on: rows of A or, where A is turned, its columns.
template <bool kATransposed, bool kBTransposed>
__device__ void add_step(Accumulator (&sum)[kTileColumns / 8], const Stage& stage, int warp_row) {
#pragma unroll
  for (int s = 0; s < kStep / 16; ++s) {
    FragmentA<1> a;
    if constexpr (kATransposed)
      load_a_transposed(a, stage.a.at(16 * s, warp_row), stage.a.kStride);
    else
      load_a(a, stage.a.at(warp_row, 16 * s), stage.a.kStride);
#pragma unroll
    for (int j = 0; j < kTileColumns / 16; ++j) {
      FragmentB<1> b[2];
      if constexpr (kBTransposed)
        load_b(b, stage.b.at(16 * j, 16 * s), stage.b.kStride);
      else
        load_b_transposed(b, stage.b.at(16 * s, 16 * j), stage.b.kStride);
      multiply_add(sum[2 * j], a, b[0]);
      multiply_add(sum[2 * j + 1], a, b[1]);
    }
  }
}

// A block computes kTileRows x kTileColumns of C. T: of the bias and C.
template <bool kTransposed, typename T>
__global__ void __launch_bounds__(kThreads) product_kernel(const __grid_constant__ ProductArguments p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const stages = reinterpret_cast<Stage*>(bytes);
  const int warp_row = threadIdx.x / 32 * 16, lane = lane_id(), first_column = blockIdx.y * kTileColumns;
  const int columns = p.columns - first_column, steps = steps_of(p.inner);
  const std::int64_t row = std::int64_t{blockIdx.x} * kTileRows + warp_row, rows = p.rows - row;

  // One group of copies a step, be it empty, for wait_for_groups() to count. A warp brings its own rows of A.
  const auto bring = [&](int step) {
    if (step < steps) {
      const int first = step * kStep, inner = p.inner - first;
      Stage& stage = stages[step % kStages];
      copy_rows<16, kStep, 32>(stage.a, warp_row, p.a + row * p.a_stride + first, p.a_stride, rows, inner, lane);
      if constexpr (kTransposed)
        copy_rows<kTileColumns, kStep, kThreads>(stage.b, 0, p.b + first_column * p.b_stride + first, p.b_stride,
                                                 columns, inner, threadIdx.x);
      else
        copy_rows<kStep, kTileColumns, kThreads>(stage.b, 0, p.b + first * p.b_stride + first_column, p.b_stride, inner,
                                                 columns, threadIdx.x);
    }
    commit_copies();
  };
#pragma unroll
  for (int step = 0; step < kStages; ++step) bring(step);

  Accumulator sum[kTileColumns / 8] = {};
  if (p.bias != nullptr) {  // read while the copies are under way
#pragma unroll
    for (int j = 0; j < kTileColumns / 8; ++j) {
      const int column = 8 * j + lane % 4 * 2;
      if (column >= columns) continue;
      const float2 bias = load_pair(static_cast<const T*>(p.bias) + first_column + column);
      sum[j] = {bias.x, bias.y, bias.x, bias.y};
    }
  }
  for (int step = 0; step < steps; ++step) {
    wait_for_groups<kStages - 1>();
    __syncthreads();
    add_step<false, kTransposed>(sum, stages[step % kStages], warp_row);
    if (step + kStages < steps) __syncthreads();  // the stage has been read
    bring(step + kStages);
  }

  T* const first = static_cast<T*>(p.c) + row * p.c_stride + first_column;
  if constexpr (std::is_same_v<T, float>) {
#pragma unroll
    for (int j = 0; j < kTileColumns / 8; ++j) {
      if (p.relu)
#pragma unroll
        for (float& x : sum[j].x) x = x < 0.0f ? 0.0f : x;
      store(first + 8 * j, static_cast<int>(p.c_stride), sum[j], static_cast<int>(rows), columns - 8 * j);
    }
  } else {
    FragmentA<1> c[kTileColumns / 16];
#pragma unroll
    for (int j = 0; j < kTileColumns / 16; ++j) {
      to_fragment(c[j], sum[2 * j], sum[2 * j + 1]);
      if (p.relu)
#pragma unroll
        for (std::uint32_t& pair : c[j].plane[0]) pair = relu_pair(pair);
    }
    // Through the last step's rows of A, which are the warp's own.
    write_rows(c, stages[(steps - 1) % kStages].a, first, p.c_stride, rows, columns);
  }
}

struct GradientArguments {
  std::int64_t rows, part_rows, a_stride, b_stride;
  int outputs, inputs;
  const bf16 *a, *b;
  float* parts;
};

// A block computes kTileColumns x kTileColumns of a part of C = A^T B, a warp 16 rows of it.
__global__ void __launch_bounds__(kThreads) gradient_kernel(const __grid_constant__ GradientArguments p) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const stages = reinterpret_cast<Stage*>(bytes);
  const int warp_row = threadIdx.x / 32 * 16;
  const int first_output = blockIdx.y * kTileColumns, outputs = p.outputs - first_output;
  const int first_input = blockIdx.z * kTileColumns, inputs = p.inputs - first_input;
  const std::int64_t first_row = blockIdx.x * p.part_rows;
  const std::int64_t rows = p.rows - first_row < p.part_rows ? p.rows - first_row : p.part_rows;
  const int steps = steps_of(static_cast<int>(rows));

  const auto bring = [&](int step) {  // a group of copies each, as above
    if (step < steps) {
      const std::int64_t row = first_row + step * kStep, left = rows - step * kStep;
      Stage& stage = stages[step % kStages];
      copy_rows<kStep, kTileColumns, kThreads>(stage.a, 0, p.a + row * p.a_stride + first_output, p.a_stride, left,
                                               outputs, threadIdx.x);
      copy_rows<kStep, kTileColumns, kThreads>(stage.b, 0, p.b + row * p.b_stride + first_input, p.b_stride, left,
                                               inputs, threadIdx.x);
    }
    commit_copies();
  };
#pragma unroll
  for (int step = 0; step < kStages; ++step) bring(step);

  Accumulator sum[kTileColumns / 8] = {};
  for (int step = 0; step < steps; ++step) {
    wait_for_groups<kStages - 1>();
    __syncthreads();
    add_step<true, false>(sum, stages[step % kStages], warp_row);
    if (step + kStages < steps) __syncthreads();  // the stage has been read
    bring(step + kStages);
  }

  float* const part = p.parts + std::int64_t{blockIdx.x} * p.outputs * p.inputs;
#pragma unroll
  for (int j = 0; j < kTileColumns / 8; ++j)
    store(part + (first_output + warp_row) * p.inputs + first_input + 8 * j, p.inputs, sum[j], outputs - warp_row,
          inputs - 8 * j);
}

Support at_most(const char* what, std::int64_t value, std::int64_t most, int multiple) {
  if (value >= 1 && value <= most && value % multiple == 0) return {};
  return Support::no(std::to_string(value) + " " + what + " are not 1 to " + std::to_string(most) +
                     (multiple > 1 ? " in multiples of " + std::to_string(multiple) : ""));
}

Support few_multiplications(std::int64_t count) {
  return at_most("multiplications", count, kSmallProductMultiplications, 1);
}

Support readable(const char* what, const void* data, std::int64_t stride, std::int64_t row) {
  if (stride < row || stride % 8 != 0)
    return Support::no(std::string(what) + "'s stride " + std::to_string(stride) + " is less than a row of " +
                       std::to_string(row) + " or no multiple of 8");
  if (reinterpret_cast<std::uintptr_t>(data) % 16 != 0)
    return Support::no(std::string(what) + " is not at a multiple of 16 bytes");
  return {};
}

}  // namespace

Support supports_small_product(const SmallProduct& p) {
  if (Support rows = at_most("rows", p.rows, kSmallProductRows, 1); !rows) return rows;
  if (Support inner = at_most("inner elements", p.inner, kSmallProductInner, 8); !inner) return inner;
  if (Support columns = at_most("columns", p.columns, kSmallProductColumns, 8); !columns) return columns;
  if (Support few = few_multiplications(p.rows * p.inner * p.columns); !few) return few;
  if (Support a = readable("A", p.a, p.a_stride, p.inner); !a) return a;
  if (Support b = readable("B", p.b, p.b_stride, p.b_transposed ? p.inner : p.columns); !b) return b;
  if (Support bias = readable("the bias", p.bias, p.columns, p.columns); !bias) return bias;
  return readable("C", p.c, p.c_stride, p.columns);
}

void small_product(const SmallProduct& product, cudaStream_t stream) {
  if (const Support support = supports_small_product(product); !support)
    throw std::runtime_error("small_product: " + support.reason());
  const ProductArguments arguments{.rows = product.rows,
                                   .a_stride = product.a_stride,
                                   .b_stride = product.b_stride,
                                   .c_stride = product.c_stride,
                                   .inner = static_cast<int>(product.inner),
                                   .columns = static_cast<int>(product.columns),
                                   .a = static_cast<const bf16*>(product.a),
                                   .b = static_cast<const bf16*>(product.b),
                                   .bias = product.bias,
                                   .c = product.c,
                                   .relu = product.relu};
  const dim3 blocks(static_cast<unsigned>(row_tiles(product.rows)),
                    static_cast<unsigned>((arguments.columns + kTileColumns - 1) / kTileColumns));
  const std::size_t stages = std::min(steps_of(arguments.inner), kStages);
  dispatch_dtype(product.c_dtype, [&](auto element) {
    using T = decltype(element);
    launch(product.b_transposed ? product_kernel<true, T> : product_kernel<false, T>, blocks, kThreads,
           stages * sizeof(Stage), stream, "small_product", arguments);
  });
}

std::int64_t small_gradient_part_rows(std::int64_t rows) {
  constexpr std::int64_t kLeast = 256, kMostParts = 16;
  const std::int64_t evenly = (rows + kMostParts - 1) / kMostParts;
  return std::max(kLeast, (evenly + kStep - 1) / kStep * kStep);
}

int small_gradient_parts(std::int64_t rows) {
  const std::int64_t of_part = small_gradient_part_rows(rows);
  return static_cast<int>((rows + of_part - 1) / of_part);
}

Support supports_small_gradient(const SmallGradient& g) {
  if (Support rows = at_most("rows", g.rows, kSmallProductRows, 1); !rows) return rows;
  if (Support outputs = at_most("outputs", g.outputs, kSmallProductColumns, 8); !outputs) return outputs;
  if (Support inputs = at_most("inputs", g.inputs, kSmallProductColumns, 8); !inputs) return inputs;
  if (Support few = few_multiplications(g.rows * g.outputs * g.inputs); !few) return few;
  if (Support a = readable("A", g.a, g.a_stride, g.outputs); !a) return a;
  if (Support b = readable("B", g.b, g.b_stride, g.inputs); !b) return b;
  return readable("the parts", g.parts, g.inputs, g.inputs);
}

void small_gradient(const SmallGradient& gradient, cudaStream_t stream) {
  if (const Support support = supports_small_gradient(gradient); !support)
    throw std::runtime_error("small_gradient: " + support.reason());
  const GradientArguments arguments{.rows = gradient.rows,
                                    .part_rows = small_gradient_part_rows(gradient.rows),
                                    .a_stride = gradient.a_stride,
                                    .b_stride = gradient.b_stride,
                                    .outputs = static_cast<int>(gradient.outputs),
                                    .inputs = static_cast<int>(gradient.inputs),
                                    .a = static_cast<const bf16*>(gradient.a),
                                    .b = static_cast<const bf16*>(gradient.b),
                                    .parts = gradient.parts};
  const auto tiles = [](int columns) { return static_cast<unsigned>((columns + kTileColumns - 1) / kTileColumns); };
  const dim3 blocks(static_cast<unsigned>(small_gradient_parts(gradient.rows)), tiles(arguments.outputs),
                    tiles(arguments.inputs));
  launch(gradient_kernel, blocks, kThreads, kStages * sizeof(Stage), stream, "small_gradient", arguments);
}

}  // namespace engram
