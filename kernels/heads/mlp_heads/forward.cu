#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/common/architecture.h"
#include "kernels/common/tensor_core.cuh"
#include "kernels/heads/mlp_heads/layout.cuh"
#include "kernels/heads/mlp_heads/resident.cuh"
#include "kernels/heads/mlp_heads/tiles.cuh"

namespace engram {
namespace mlp {
namespace {

struct ForwardArguments {
  std::int64_t rows;
  int tiles, stride, output_stride, heads, kept;
  const bf16* x;
  const unsigned char* packed;
  bf16 *first, *second;
  uint4* masks;
  float* output[kMaxMlpHeads];
};

#ifdef ENGRAM_HAS_WGMMA
// x's rows `row` and row + 8 as left operands, zero after the matrix.
template <int kWidth>
__device__ void load_x(std::uint32_t (&x)[kWidth / 16][4], const ForwardArguments& a, std::int64_t row) {
  const bf16* p = a.x + row * a.stride + 4 * (threadIdx.x % 4);
#pragma unroll
  for (int s = 0; s < kWidth / 16; ++s) {
    const bool inside = 16 * s < a.stride;
    const uint2 zero = make_uint2(0, 0);
    const uint2 upper = inside && row < a.rows ? __ldg(reinterpret_cast<const uint2*>(p + 16 * s)) : zero;
    const uint2 lower =
        inside && row + 8 < a.rows ? __ldg(reinterpret_cast<const uint2*>(p + 8 * a.stride + 16 * s)) : zero;
    x[s][0] = upper.x, x[s][1] = lower.x, x[s][2] = upper.y, x[s][3] = lower.y;
  }
}

// relu(sum + bias) as left operands of the next layer.
__device__ void activate(std::uint32_t (&h)[kHidden / 16][4], const float (&sum)[kHidden / 2], const float* bias) {
  const int t = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < kHidden / 8; ++j) {
    const float2 b = *reinterpret_cast<const float2*>(bias + 8 * j + 2 * t);
#pragma unroll
    for (int r = 0; r < 2; ++r)
      h[j / 2][j % 2 * 2 + r] = relu_pair(pack_bf16(sum[4 * j + 2 * r] + b.x, sum[4 * j + 2 * r + 1] + b.y));
  }
}

// A layer's hidden units and which of them are not zero.
__device__ void keep(const std::uint32_t (&h)[kHidden / 16][4], bf16* rows_at, std::int64_t row, std::int64_t rows,
                     int row_stride, uint4* mask) {
  const int t = threadIdx.x % 4;
  std::uint32_t word[4];
#pragma unroll
  for (int w = 0; w < 4; ++w) {
    word[w] = 0;
#pragma unroll
    for (int i = 0; i < 16; ++i) word[w] = word[w] >> 1 | nonzero_halves(h[4 * w + i / 4][i % 4]);
  }
  *mask = make_uint4(word[0], word[1], word[2], word[3]);
  bf16* const p = rows_at + row * row_stride + 8 * t;
#pragma unroll
  for (int q = 0; q < kHidden / 32; ++q)
#pragma unroll
    for (int r = 0; r < 2; ++r)
      if (row + 8 * r < rows)
        *reinterpret_cast<uint4*>(p + 8 * r * row_stride + 32 * q) =
            make_uint4(h[2 * q][r], h[2 * q][2 + r], h[2 * q + 1][r], h[2 * q + 1][2 + r]);
}

// second W3^T + b3 of a warp's 16 rows.
__device__ void write_outputs(const std::uint32_t (&h)[kHidden / 16][4], const unsigned char* weight3,
                              const float* bias3, float* rows_at, std::int64_t row, const ForwardArguments& a) {
  const int lane = lane_id(), t = lane % 4;
  for (int tile = 0; 8 * tile < a.output_stride; ++tile) {
    const float2 b = *reinterpret_cast<const float2*>(bias3 + 8 * tile + 2 * t);
    constexpr int kChains = 4;  // that do not wait for each other
    Accumulator sums[kChains] = {{{b.x, b.y, b.x, b.y}}};
#pragma unroll
    for (int s = 0; s < kHidden / 16; ++s) {
      FragmentA<1> left;
      FragmentB<1> right;
      const uint2 w = reinterpret_cast<const uint2*>(weight3)[(tile * kHidden / 16 + s) * 32 + lane];
#pragma unroll
      for (int i = 0; i < 4; ++i) left.plane[0][i] = h[s][i];
      right.plane[0][0] = w.x, right.plane[0][1] = w.y;
      multiply_add(sums[s % kChains], left, right);
    }
    Accumulator sum;
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.x[i] = (sums[0].x[i] + sums[1].x[i]) + (sums[2].x[i] + sums[3].x[i]);
    float* const p = rows_at + row * a.output_stride + 8 * tile + 2 * t;
    if (row < a.rows) store_pair(p, sum.x[0], sum.x[1]);
    if (row + 8 < a.rows) store_pair(p + 8 * a.output_stride, sum.x[2], sum.x[3]);
  }
}
#endif

// A block takes a range of (head, tile of 64 rows), its two warpgroups every other one; few blocks meet two heads.
// Their products take turns, so that one's stand beside what the other does between them.
template <int kWidth>
__global__ __launch_bounds__(kThreads, 1) void forward_kernel(ForwardArguments a) {
#ifdef ENGRAM_HAS_WGMMA
  using Image = ForwardImage<kWidth>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ ResidentWeights<Image> weights;
  const int warpgroup = threadIdx.x / kWarpgroup, thread = threadIdx.x % kWarpgroup;
  const auto tile_row = [&](int tile) {
    return static_cast<std::int64_t>(tile) * kTileRows + thread / 32 * 16 + thread % 32 / 4;
  };
  const int tiles = a.tiles, blocks = gridDim.x, block = blockIdx.x;
  const std::int64_t items = static_cast<std::int64_t>(tiles) * a.heads;
  const int begin = static_cast<int>(items * block / blocks), end = static_cast<int>(items * (block + 1) / blocks);
  if (threadIdx.x == 0) weights.start(shared, a.packed + begin / tiles * Image::kBytes);
  __syncthreads();
  const auto* const weight1 = reinterpret_cast<const bf16*>(shared + Image::kWeight1);
  const auto* const weight2 = reinterpret_cast<const bf16*>(shared + Image::kWeight2);
  const auto* const bias1 = reinterpret_cast<const float*>(shared + Image::kBias1);
  const auto* const bias2 = reinterpret_cast<const float*>(shared + Image::kBias2);
  const auto* const bias3 = reinterpret_cast<const float*>(shared + Image::kBias3);

  std::uint32_t x[kWidth / 16][4], h[kHidden / 16][4];
  int second_head = 0, second_tile = -1;  // whose second layer is in h and is still to be written
  const auto keep_second = [&] {
    if (second_tile < 0) return;
    keep(h, a.second + second_head * kHidden, tile_row(second_tile), a.rows, a.kept * kHidden,
         a.masks + mask_index(second_head, 1, tiles, second_tile, thread));
    second_tile = -1;
  };
  int item = begin + warpgroup;
  if (item < end) load_x<kWidth>(x, a, tile_row(item % tiles));
  int phase = 0;
  for (int head = begin / tiles; head * tiles < end; ++head, ++phase) {
    const int first_item = max(begin, head * tiles), last_item = min(end, (head + 1) * tiles),
              count = last_item - first_item;
    // A turn a layer. At a new head the warpgroups meet, as the weights are replaced when both have given them back.
    Turns turns(warpgroup, (first_item - begin) % kWarpgroups == warpgroup, (count + 1) / 2 * 2, count / 2 * 2);
    for (; item < last_item; item += kWarpgroups) {
      const int tile = item - head * tiles;
      const std::int64_t row = tile_row(tile);
      const bool kept = head < a.kept;
      float sum[kHidden / 2];

      weights.wait(0, phase);
      turns.take();
      start_products();
#pragma unroll
      for (int s = 0; s < kWidth / 16; ++s)
        multiply<kHidden>(sum, x[s], Image::Weight1::k_in_columns(weight1, 0, 16 * s), s > 0);
      commit_products();
      turns.pass();
      keep_second();  // of the tile before, beside the products
      wait_for_products<0>();
      hold_registers(sum);
      hold_operands(x);
      activate(h, sum, bias1);

      weights.wait(1, phase);
      turns.take();
      start_products();
#pragma unroll
      for (int s = 0; s < kHidden / 16; ++s)
        multiply<kHidden>(sum, h[s], Image::Weight2::k_in_columns(weight2, 0, 16 * s), s > 0);
      commit_products();
      turns.pass();
      if (kept)  // beside the products
        keep(h, a.first + head * kHidden, row, a.rows, a.kept * kHidden,
             a.masks + mask_index(head, 0, tiles, tile, thread));
      wait_for_products<0>();
      hold_registers(sum);
      weights.wait(2, phase);
      activate(h, sum, bias2);
      if (item + kWarpgroups < end) load_x<kWidth>(x, a, tile_row((item + kWarpgroups) % tiles));
      write_outputs(h, shared + Image::kWeight3, bias3, a.output[head], row, a);
      if (kept) second_head = head, second_tile = tile;
    }
    const unsigned char* const next = (head + 1) * tiles < end ? a.packed + (head + 1) * Image::kBytes : nullptr;
#pragma unroll
    for (int piece = 0; piece < Image::kPieces; ++piece) {
      weights.wait(piece, phase);  // also where there was no tile
      weights.give_back(piece, phase, shared, next);
    }
  }
  keep_second();
#endif
}

}  // namespace
}  // namespace mlp

Support supports_mlp_heads(const MlpHeadsShape& shape) {
  if (Support sizes = supports_mlp_heads_sizes(shape); !sizes) return sizes;
  if (Support device = supports_hopper(); !device) return device;
  static const bool compiled = has_body(&mlp::forward_kernel<112>);
  if (!compiled) return Support::no("this build has no code of it for Hopper");
  return {};
}

std::size_t mlp_heads_mask_bytes(const MlpHeadsShape& shape) {
  return 2 * static_cast<std::size_t>(shape.kept) * mlp::row_tiles(shape.rows) * kWarpgroup * sizeof(uint4);
}

void mlp_heads_forward(const MlpHeadsForward& forward, cudaStream_t stream) {
  const MlpHeadsShape& shape = forward.shape;
  mlp::check_shape(shape, "mlp_heads_forward");
  mlp::ForwardArguments arguments{.rows = shape.rows,
                                  .tiles = mlp::row_tiles(shape.rows),
                                  .stride = shape.stride,
                                  .output_stride = shape.output_stride(),
                                  .heads = shape.heads,
                                  .kept = shape.kept,
                                  .x = static_cast<const bf16*>(forward.x_MP),
                                  .packed = static_cast<const unsigned char*>(forward.packed),
                                  .first = static_cast<bf16*>(forward.first),
                                  .second = static_cast<bf16*>(forward.second),
                                  .masks = static_cast<uint4*>(forward.masks),
                                  .output = {}};
  std::copy_n(forward.output_MA, shape.heads, arguments.output);
  mlp::for_width(shape, [&](auto width) {
    launch(mlp::forward_kernel<width>, mlp::blocks_for(arguments.tiles * shape.heads), mlp::kThreads,
           mlp::ForwardImage<width>::kBytes, stream, "mlp_heads_forward", arguments);
  });
}

}  // namespace engram
