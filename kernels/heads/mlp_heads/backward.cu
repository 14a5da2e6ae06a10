#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "kernels/common/tensor_core.cuh"
#include "kernels/heads/mlp_heads/layout.cuh"
#include "kernels/heads/mlp_heads/resident.cuh"
#include "kernels/heads/mlp_heads/tiles.cuh"

namespace engram {
namespace mlp {
namespace {

struct BackwardArguments {
  std::int64_t rows;
  int tiles, stride, output_stride, kept;
  const unsigned char* packed;  // the backward images
  const uint4* masks;
  const float* d_output[kMaxMlpHeads];
  bf16 *d_first, *d_second, *d_output_rounded, *d_x;
  float* sums;  // [warpgroup][sum_columns]
  float4* partial_d_x;
};

int sum_columns(const MlpHeadsShape& shape) { return shape.kept * (2 * kHidden + shape.output_stride()); }

#ifdef ENGRAM_HAS_WGMMA
// A warp's own sums over its rows of a head: first layer's units, second's, outputs.
constexpr int kSumColumns = 2 * kHidden + kMostOutputs;

// 32 columns of a layer's gradient, sums of products: zero where the layer was, as left operands of the next product,
// and added up over the rows. bits: of row half r, tile j, column e at 2 j + r + 16 e.
__device__ void through_relu(float (&x)[16], std::uint32_t bits, std::uint32_t (&left)[4], std::uint32_t (&right)[4],
                             float* sums) {
#pragma unroll
  for (int i = 0; i < 16; ++i)
    if ((bits >> (i / 4 * 2 + i / 2 % 2 + i % 2 * 16) & 1) == 0) x[i] = 0;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    left[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
    right[i] = pack_bf16(x[8 + 2 * i], x[8 + 2 * i + 1]);
  }
  float column[8];
#pragma unroll
  for (int i = 0; i < 8; ++i) column[i] = x[i / 2 * 4 + i % 2] + x[i / 2 * 4 + 2 + i % 2];
  const float sum = sum_over_rows(column);
  sums[8 * (lane_id() % 4) + lane_id() / 4] += sum;
}

// Left operands to memory, of which p is the upper row's first vector; not to be read again soon.
template <int kSteps>
__device__ void write_rows(const std::uint32_t (&x)[kSteps][4], bf16* p, int stride, bool upper_row, bool lower_row) {
#pragma unroll
  for (int s = 0; s < kSteps; s += 2) {
    uint4* const upper = reinterpret_cast<uint4*>(p + 16 * s);
    uint4* const lower = reinterpret_cast<uint4*>(p + 8 * stride + 16 * s);
    if (upper_row) __stcs(upper, make_uint4(x[s][0], x[s][2], x[s + 1][0], x[s + 1][2]));
    if (lower_row) __stcs(lower, make_uint4(x[s][1], x[s][3], x[s + 1][1], x[s + 1][3]));
  }
}

// d_output's rows `row` and row + 8 as left operand, zero after the outputs and the matrix; rounded to memory, and
// added up over the rows.
__device__ FragmentA<1> load_d_output(const BackwardArguments& a, int head, std::int64_t row, float* sums) {
  const int t = threadIdx.x % 4;
  FragmentA<1> d = {};
#pragma unroll
  for (int tile = 0; tile < kMostOutputs / 8; ++tile) {
    if (8 * tile >= a.output_stride) break;
    const int column = 8 * tile + 2 * t;
    float2 sum = make_float2(0, 0);
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      if (row + 8 * r >= a.rows) continue;
      const float2 x = load_pair(a.d_output[head] + (row + 8 * r) * a.output_stride + column);
      d.plane[0][2 * tile + r] = pack_bf16(x.x, x.y);
      *reinterpret_cast<std::uint32_t*>(a.d_output_rounded + ((row + 8 * r) * a.kept + head) * a.output_stride +
                                        column) = d.plane[0][2 * tile + r];
      sum.x += x.x, sum.y += x.y;
    }
#pragma unroll
    for (int lanes = 4; lanes < 32; lanes *= 2) {
      sum.x += __shfl_xor_sync(0xffffffffu, sum.x, lanes);
      sum.y += __shfl_xor_sync(0xffffffffu, sum.y, lanes);
    }
    if (lane_id() < 4) sums[column] += sum.x, sums[column + 1] += sum.y;
  }
  return d;
}

__device__ void prefetch(const void* p) { asm volatile("prefetch.global.L2 [%0];" ::"l"(p)); }
#endif

// Every warpgroup has its own tiles of 64 rows and takes them through one head after the other, whose weights are in
// shared memory; d_x's sum over the heads waits in global memory, each thread's part in its own place.
template <int kWidth>
__global__ __launch_bounds__(kThreads, 1) void backward_kernel(BackwardArguments a) {
#ifdef ENGRAM_HAS_WGMMA
  using Image = BackwardImage<kWidth>;
  extern __shared__ __align__(128) unsigned char shared[];
  __shared__ ResidentWeights<Image> weights;
  __shared__ float warp_sums[kWarps][kSumColumns];
  const int warpgroup = threadIdx.x / kWarpgroup, thread = threadIdx.x % kWarpgroup;
  const int lane = lane_id(), t = lane % 4;
  const int row_of_thread = thread / 32 * 16 + lane / 4;
  const int group = blockIdx.x * kWarpgroups + warpgroup, groups = gridDim.x * kWarpgroups;
  if (threadIdx.x == 0) weights.start(shared, a.packed);
  __syncthreads();
  const auto* const weight3 = reinterpret_cast<const uint2*>(shared + Image::kWeight3);
  float* const sums = warp_sums[threadIdx.x / 32];
  const int row_stride = a.kept * kHidden;

  for (int head = 0; head < a.kept; ++head) {
    const unsigned char* const next_head = head + 1 < a.kept ? a.packed + (head + 1) * Image::kBytes : nullptr;
    for (int i = lane; i < kSumColumns; i += 32) sums[i] = 0;
    __syncwarp();
    for (int tile = group; tile < a.tiles; tile += groups) {
      const bool last_tile = tile + groups >= a.tiles;
      const std::int64_t row = static_cast<std::int64_t>(tile) * kTileRows + row_of_thread;
      const bool upper_row = row < a.rows, lower_row = row + 8 < a.rows;
      const auto mask_of = [&](int h, int layer, int of_tile) {
        return a.masks + mask_index(h, layer, a.tiles, of_tile, thread);
      };
      const uint4 mask2 = *mask_of(head, 1, tile), mask1 = *mask_of(head, 0, tile);
      const std::uint32_t words2[4] = {mask2.x, mask2.y, mask2.z, mask2.w};
      const std::uint32_t words1[4] = {mask1.x, mask1.y, mask1.z, mask1.w};
      weights.wait(0, head);
      const FragmentA<1> d_output = load_d_output(a, head, row, sums + 2 * kHidden);
      const int coming_head = last_tile ? head + 1 : head;
      const int coming_tile = last_tile ? group : tile + groups;
      if (coming_head < a.kept) {
        prefetch(mask_of(coming_head, 1, coming_tile));
        prefetch(mask_of(coming_head, 0, coming_tile));
        const std::int64_t coming_row =
            static_cast<std::int64_t>(coming_tile) * kTileRows + thread / 2;  // a row has a line's half at most
        if (coming_row < a.rows) prefetch(a.d_output[coming_head] + coming_row * a.output_stride);
      }

      std::uint32_t d_second[kHidden / 16][4];
      bf16* const second_at = a.d_second + row * row_stride + head * kHidden + 8 * t;
#pragma unroll
      for (int q = 0; q < kHidden / 32; ++q) {
        float x[16];
#pragma unroll
        for (int j = 0; j < 4; ++j) {
          Accumulator sum = {};
          FragmentB<1> w;
          const uint2 pairs = weight3[(4 * q + j) * 32 + lane];
          w.plane[0][0] = pairs.x, w.plane[0][1] = pairs.y;
          multiply_add(sum, d_output, w);
#pragma unroll
          for (int i = 0; i < 4; ++i) x[4 * j + i] = sum.x[i];
        }
        through_relu(x, words2[q / 2] >> (q % 2 * 8), d_second[2 * q], d_second[2 * q + 1], sums + kHidden + 32 * q);
      }
      if (last_tile) weights.give_back(0, head, shared, next_head);

      float d_x[kWidth / 2];
      float4* const partial = a.partial_d_x + static_cast<std::int64_t>(tile) * (kWidth / 8) * kWarpgroup + thread;
      if (head > 0)
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j) {
          const float4 x = partial[j * kWarpgroup];
          d_x[4 * j] = x.x, d_x[4 * j + 1] = x.y, d_x[4 * j + 2] = x.z, d_x[4 * j + 3] = x.w;
        }
      bf16* const first_at = a.d_first + row * row_stride + head * kHidden + 8 * t;
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const auto* const weight2 = reinterpret_cast<const bf16*>(shared + Image::piece_begin(1 + 2 * half));
        const auto* const weight1 = reinterpret_cast<const bf16*>(shared + Image::piece_begin(2 + 2 * half));
        float sum[Image::kHalf / 2];
        weights.wait(1 + 2 * half, head);
        start_products();
#pragma unroll
        for (int s = 0; s < kHidden / 16; ++s)
          multiply<Image::kHalf>(sum, d_second[s], Image::Weight2::k_in_columns(weight2, 0, 16 * s), s > 0);
        commit_products();
        if (half == 0) write_rows(d_second, second_at, row_stride, upper_row, lower_row);  // beside the products
        wait_for_products<0>();
        hold_registers(sum);
        hold_operands(d_second);
        if (last_tile) {
          weights.give_back(1 + 2 * half, head, shared, next_head);
          if (half == 1) weights.give_back(2, head, shared, next_head);
        }
        std::uint32_t d_first[Image::kHalf / 16][4];
#pragma unroll
        for (int q = 0; q < Image::kHalf / 32; ++q) {
          float x[16];
#pragma unroll
          for (int i = 0; i < 16; ++i) x[i] = sum[16 * q + i];
          const int unit = half * Image::kHalf + 32 * q;
          through_relu(x, words1[unit / 64] >> (unit / 32 % 2 * 8), d_first[2 * q], d_first[2 * q + 1], sums + unit);
        }
        weights.wait(2 + 2 * half, head);
        start_products();
#pragma unroll
        for (int s = 0; s < Image::kHalf / 16; ++s)
          multiply<kWidth>(d_x, d_first[s], Image::Weight1::k_in_columns(weight1, 0, 16 * s),
                           head > 0 || half > 0 || s > 0);
        commit_products();
        write_rows(d_first, first_at + half * Image::kHalf, row_stride, upper_row, lower_row);
        wait_for_products<0>();
        hold_registers(d_x);
        hold_operands(d_first);
      }
      if (last_tile) weights.give_back(4, head, shared, next_head);

      if (head + 1 < a.kept) {
#pragma unroll
        for (int j = 0; j < kWidth / 8; ++j)
          partial[j * kWarpgroup] = make_float4(d_x[4 * j], d_x[4 * j + 1], d_x[4 * j + 2], d_x[4 * j + 3]);
      } else {
        bf16* const p = a.d_x + row * a.stride + 4 * t;
#pragma unroll
        for (int s = 0; s < kWidth / 16; ++s)
#pragma unroll
          for (int r = 0; r < 2; ++r)
            if (16 * s < a.stride && row + 8 * r < a.rows)
              *reinterpret_cast<uint2*>(p + 8 * r * a.stride + 16 * s) =
                  make_uint2(pack_bf16(d_x[8 * s + 2 * r], d_x[8 * s + 2 * r + 1]),
                             pack_bf16(d_x[8 * s + 4 + 2 * r], d_x[8 * s + 4 + 2 * r + 1]));
      }
    }
    if (group >= a.tiles)
#pragma unroll
      for (int piece = 0; piece < Image::kPieces; ++piece) {
        weights.wait(piece, head);
        weights.give_back(piece, head, shared, next_head);
      }

    meet(1 + warpgroup, kWarpgroup);
    float* const own = a.sums + group * static_cast<std::int64_t>(a.kept * (2 * kHidden + a.output_stride));
    for (int c = thread; c < 2 * kHidden + a.output_stride; c += kWarpgroup) {
      float sum = 0;
      for (int warp = 0; warp < 4; ++warp) sum += warp_sums[4 * warpgroup + warp][c];
      if (c < 2 * kHidden)
        own[(c / kHidden * a.kept + head) * kHidden + c % kHidden] = sum;
      else
        own[2 * a.kept * kHidden + head * a.output_stride + c - 2 * kHidden] = sum;
    }
    meet(1 + warpgroup, kWarpgroup);
  }
#endif
}

std::size_t sums_bytes(const MlpHeadsShape& shape) {
  return sizeof(float) * kWarpgroups * blocks_for(row_tiles(shape.rows)) * sum_columns(shape);
}

}  // namespace
}  // namespace mlp

std::size_t mlp_heads_backward_scratch_bytes(const MlpHeadsShape& shape) {
  const std::size_t partial = shape.kept > 1 ? sizeof(float) * mlp::row_tiles(shape.rows) *
                                                   std::size_t{mlp::kTileRows} * mlp::kernel_width(shape.stride)
                                             : 0;
  return mlp::sums_bytes(shape) + partial;
}

void mlp_heads_backward(const MlpHeadsBackward& backward, void* scratch, cudaStream_t stream) {
  const MlpHeadsShape& shape = backward.shape;
  mlp::check_shape(shape, "mlp_heads_backward");
  if (shape.kept == 0) throw std::runtime_error("mlp_heads_backward: no head was kept");
  const int width = mlp::kernel_width(shape.stride);
  auto* const bytes = static_cast<unsigned char*>(scratch);
  mlp::BackwardArguments arguments{
      .rows = shape.rows,
      .tiles = mlp::row_tiles(shape.rows),
      .stride = shape.stride,
      .output_stride = shape.output_stride(),
      .kept = shape.kept,
      .packed = static_cast<const unsigned char*>(backward.packed) + shape.heads * mlp::forward_image_bytes(width),
      .masks = static_cast<const uint4*>(backward.masks),
      .d_output = {},
      .d_first = static_cast<bf16*>(backward.d_first),
      .d_second = static_cast<bf16*>(backward.d_second),
      .d_output_rounded = static_cast<bf16*>(backward.d_output_rounded),
      .d_x = static_cast<bf16*>(backward.d_x_MP),
      .sums = reinterpret_cast<float*>(bytes),
      .partial_d_x = reinterpret_cast<float4*>(bytes + mlp::sums_bytes(shape))};
  std::copy_n(backward.d_output_MA, shape.kept, arguments.d_output);
  mlp::for_width(shape, [&](auto kernel_width) {
    launch(mlp::backward_kernel<kernel_width>, mlp::blocks_for(arguments.tiles), mlp::kThreads,
           mlp::BackwardImage<kernel_width>::kBytes, stream, "mlp_heads_backward", arguments);
  });
}

GradientSum mlp_heads_bias_sum(const MlpHeadsShape& shape, const void* scratch, float* d_bias) {
  const int columns = mlp::sum_columns(shape);
  return vector_sum(static_cast<const float*>(scratch), mlp::kWarpgroups * mlp::blocks_for(mlp::row_tiles(shape.rows)),
                    columns, columns, d_bias);
}

}  // namespace engram
