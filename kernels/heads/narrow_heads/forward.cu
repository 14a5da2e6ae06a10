#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "kernels/heads/narrow_heads/tiles.cuh"

namespace engram {

Support supports_narrow_heads_sizes(const MlpHeadsShape& shape) {
  if (Support limits = supports_mlp_heads_limits(shape); !limits) return limits;
  if (shape.hidden == 64 || shape.hidden == 128) return {};
  return Support::no("hidden width " + std::to_string(shape.hidden) + " is not 64 or 128");
}

namespace narrow {

void check_shape(const MlpHeadsShape& shape, const char* what) {
  if (const Support sizes = supports_narrow_heads_sizes(shape); !sizes)
    throw std::runtime_error(std::string(what) + ": " + sizes.reason());
}

namespace {

constexpr int kThreads = 2 * kTileRows;  // a warp for 16 rows

struct ForwardArguments : Arguments {
  bf16 *first, *second;
  float* output[kMaxMlpHeads];
};

template <int kHidden, int kWidth>
struct Shared {
  WeightTiles<kHidden, kWidth> weights;
  Tile<kTileRows, std::max(kHidden, kWidth)> rows;  // x; then hidden layers on their way to memory
  float bias1[kHidden], bias2[kHidden], bias3[kMostOutputs];
};

// relu(x W^T + b) of a warp's 16 rows, left operands as those of the next layer.
template <int kSteps, int kTiles, class Weight>
__device__ void layer(FragmentA<1> (&y)[kTiles], const FragmentA<1> (&x)[kSteps], const Weight& weight,
                      const float* bias) {
#pragma unroll
  for (int j = 0; j < kTiles; ++j) {
    Accumulator sum[2] = {};
#pragma unroll
    for (int s = 0; s < kSteps; ++s) {
      FragmentB<1> w[2];
      load_b(w, weight.at(16 * j, 16 * s), Weight::kStride);
      multiply_add(sum[0], x[s], w[0]);
      multiply_add(sum[1], x[s], w[1]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      const float2 b = load_pair(bias + 16 * j + 8 * half + 2 * (lane_id() % 4));
#pragma unroll
      for (int r = 0; r < 2; ++r)
        y[j].plane[0][2 * half + r] = relu_pair(pack_bf16(sum[half].x[2 * r] + b.x, sum[half].x[2 * r + 1] + b.y));
    }
  }
}

// A block computes one head, blockIdx.y, for tiles of 64 rows, one after the other.
template <int kHidden, int kWidth>
__global__ void __launch_bounds__(kThreads) forward_kernel(const __grid_constant__ ForwardArguments a) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kHidden, kWidth>*>(bytes);
  const int head = blockIdx.y, warp_row = threadIdx.x / 32 * 16, lane = lane_id();
  const auto bring_rows = [&](int tile) {
    const std::int64_t row = std::int64_t{tile} * kTileRows + warp_row;
    copy_rows<16, kWidth, 32>(shared.rows, warp_row, a.x + row * a.stride, a.stride, a.rows - row, a.stride, lane);
  };
  bring_rows(blockIdx.x);
  const MlpHeadWeights& weights = a.weights[head];
  for (int i = threadIdx.x; i < kHidden; i += kThreads) {
    shared.bias1[i] = weights.bias1_I[i];
    shared.bias2[i] = weights.bias2_I[i];
    if (i < kMostOutputs) shared.bias3[i] = i < a.outputs ? weights.bias3_A[i] : 0.0f;
  }
  shared.weights.template load<kThreads>(weights, a.width, a.outputs);

  for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const std::int64_t row = std::int64_t{tile} * kTileRows + warp_row, rows = a.rows - row;
    wait_for_copies();
    __syncthreads();
    FragmentA<1> x[kWidth / 16], first[kHidden / 16], second[kHidden / 16];
#pragma unroll
    for (int s = 0; s < kWidth / 16; ++s) load_a(x[s], shared.rows.at(warp_row, 16 * s), shared.rows.kStride);
    const std::int64_t hidden_stride = std::int64_t{a.kept} * kHidden, hidden_at = row * hidden_stride + head * kHidden;
    layer(first, x, shared.weights.first, shared.bias1);
    if (head < a.kept) write_rows(first, shared.rows, a.first + hidden_at, hidden_stride, rows, kHidden);
    layer(second, first, shared.weights.second, shared.bias2);
    if (head < a.kept) write_rows(second, shared.rows, a.second + hidden_at, hidden_stride, rows, kHidden);
    __syncwarp();
    if (tile + static_cast<int>(gridDim.x) < a.tiles) bring_rows(tile + gridDim.x);

    Accumulator output[2] = {};
#pragma unroll
    for (int s = 0; s < kHidden / 16; ++s) {
      FragmentB<1> w[2];
      load_b(w, shared.weights.third.at(0, 16 * s), shared.weights.third.kStride);
      multiply_add(output[0], second[s], w[0]);
      multiply_add(output[1], second[s], w[1]);
    }
#pragma unroll
    for (int half = 0; half < 2; ++half) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int column = 8 * half + lane % 4 * 2 + i % 2;
        output[half].x[i] = column < a.outputs ? output[half].x[i] + shared.bias3[column] : 0.0f;
      }
      store(a.output[head] + row * a.output_stride + 8 * half, a.output_stride, output[half],
            static_cast<int>(min(rows, std::int64_t{16})), a.output_stride - 8 * half);
    }
  }
}

}  // namespace
}  // namespace narrow

void narrow_heads_forward(const NarrowHeadsForward& forward, cudaStream_t stream) {
  const MlpHeadsShape& shape = forward.shape;
  narrow::check_shape(shape, "narrow_heads_forward");
  narrow::ForwardArguments arguments{narrow::arguments_of(shape, forward.x_MP, forward.weights, shape.heads),
                                     static_cast<bf16*>(forward.first),
                                     static_cast<bf16*>(forward.second),
                                     {}};
  std::copy_n(forward.output_MA, shape.heads, arguments.output);
  narrow::for_sizes(shape, [&](auto hidden, auto width) {
    const int blocks = narrow::row_blocks(shape, shape.heads, hidden == 64 ? 6 : 2);
    launch(narrow::forward_kernel<hidden, width>,
           dim3(static_cast<unsigned>(blocks), static_cast<unsigned>(shape.heads)), narrow::kThreads,
           sizeof(narrow::Shared<hidden, width>), stream, "narrow_heads_forward", arguments);
  });
}

}  // namespace engram
