// What the forward and the backward kernel share: weights in shared memory, and how many blocks take the rows.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "kernels/common/launch.cuh"
#include "kernels/common/shared_tile.cuh"
#include "kernels/common/tensor_core.cuh"
#include "kernels/heads/narrow_heads/narrow_heads.h"

namespace engram::narrow {

constexpr int kMostOutputs = 16;

// The blocks that share the tiles of a head: as many as fill an H100 about once, whatever the device is, because the
// order of the sums over the rows, and so their bits, depend on it.
inline int row_blocks(const MlpHeadsShape& shape, int heads, int blocks_a_multiprocessor) {
  constexpr int kMultiprocessors = 132;
  return std::min(row_tiles(shape.rows), (kMultiprocessors * blocks_a_multiprocessor + heads - 1) / heads);
}

// Rounds a float matrix [rows, columns] of any alignment to the tile, zeros around it.
template <int kThreads, class To>
__device__ inline void load_rounded(To& tile, const float* matrix, int rows, int columns) {
  const auto fill = [&](auto four_at) {
    constexpr int kPieces = To::kColumns / 4;
#pragma unroll 8  // loads on their way together
    for (int i = threadIdx.x; i < To::kRows * kPieces; i += kThreads) {
      const int row = i / kPieces, column = i % kPieces * 4;
      const float4 x = four_at(row, column);
      *reinterpret_cast<uint2*>(tile.at(row, column)) = make_uint2(pack_bf16(x.x, x.y), pack_bf16(x.z, x.w));
    }
  };
  if (columns % 4 == 0 && reinterpret_cast<std::uintptr_t>(matrix) % 16 == 0)
    fill([&](int row, int column) {
      if (row >= rows || column >= columns) return make_float4(0, 0, 0, 0);
      return __ldg(reinterpret_cast<const float4*>(matrix + row * columns + column));
    });
  else
    fill([&](int row, int column) {
      const auto element = [&](int c) { return row < rows && c < columns ? __ldg(matrix + row * columns + c) : 0.0f; };
      return make_float4(element(column), element(column + 1), element(column + 2), element(column + 3));
    });
}

// A head's weights in bfloat16.
template <int kHidden, int kWidth>
struct WeightTiles {
  Tile<kHidden, kWidth> first;
  Tile<kHidden, kHidden> second;
  Tile<kMostOutputs, kHidden> third;

  template <int kThreads>
  __device__ void load(const MlpHeadWeights& weights, int width, int outputs) {
    load_rounded<kThreads>(first, weights.weight1_ID, kHidden, width);
    load_rounded<kThreads>(second, weights.weight2_II, kHidden, kHidden);
    load_rounded<kThreads>(third, weights.weight3_AI, outputs, kHidden);
  }
};

// Calls function(kHidden, kWidth) with the kernels' sizes as compile-time constants.
template <class Function>
decltype(auto) for_sizes(const MlpHeadsShape& shape, const Function& function) {
  const auto for_width = [&](auto hidden) {
    if (shape.stride <= 64) return function(hidden, std::integral_constant<int, 64>{});
    return function(hidden, std::integral_constant<int, 128>{});
  };
  if (shape.hidden == 64) return for_width(std::integral_constant<int, 64>{});
  return for_width(std::integral_constant<int, 128>{});
}

// What both kernels are given.
struct Arguments {
  std::int64_t rows;
  int tiles, width, stride, outputs, output_stride, kept;
  const bf16* x;
  MlpHeadWeights weights[kMaxMlpHeads];
};
// With the weights of the first `heads`.
inline Arguments arguments_of(const MlpHeadsShape& shape, const void* x_MP, const MlpHeadWeights* weights, int heads) {
  Arguments arguments{.rows = shape.rows,
                      .tiles = row_tiles(shape.rows),
                      .width = shape.width,
                      .stride = shape.stride,
                      .outputs = shape.outputs,
                      .output_stride = shape.output_stride(),
                      .kept = shape.kept,
                      .x = static_cast<const bf16*>(x_MP),
                      .weights = {}};
  std::copy_n(weights, heads, arguments.weights);
  return arguments;
}

// Throws std::runtime_error unless supports_narrow_heads_sizes() has no objection.
void check_shape(const MlpHeadsShape& shape, const char* what);

}  // namespace engram::narrow
