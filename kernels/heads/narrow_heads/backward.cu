#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "base/host_device.h"
#include "kernels/block/row_vector.cuh"
#include "kernels/heads/narrow_heads/tiles.cuh"

namespace engram {
namespace narrow {
namespace {

// A warp computes 16 of a tile's rows, and half of a layer's columns.
constexpr int kRowGroups = kTileRows / 16, kThreads = 2 * kRowGroups * 32, kWarps = kThreads / 32;

// What a block adds up over its rows, of all kept heads, in floats: the gradients of the heads' weights below each
// other, [kept * I, P], [kept * I, I], [kept * output_stride, I], then those of the biases.
struct SumsLayout {
  int weight2, weight3, bias1, bias2, bias3, size;

  explicit SumsLayout(const MlpHeadsShape& s)
      : weight2(s.kept * s.hidden * s.stride),
        weight3(weight2 + s.kept * s.hidden * s.hidden),
        bias1(weight3 + s.kept * s.output_stride() * s.hidden),
        bias2(bias1 + s.kept * s.hidden),
        bias3(bias2 + s.kept * s.hidden),
        size(bias3 + s.kept * s.output_stride()) {}
};

struct BackwardArguments : Arguments {
  const bf16 *first, *second;
  const float* d_output[kMaxMlpHeads];
  SumsLayout layout;
  float* sums;        // [row block] of the layout
  float* d_x_shares;  // [kept, M, P]
};

template <int kHidden, int kWidth>
struct Shared {
  WeightTiles<kHidden, kWidth> weights;
  Tile<kTileRows, kHidden> first, second;  // layers; then their gradients
  Tile<kTileRows, kWidth> x;
  Tile<kTileRows, kMostOutputs> d_output;
  float bias[kRowGroups][2 * kHidden];  // sums over a row group's rows: first layer's units, second's
  float bias3[kWarps][kMostOutputs];
};

// sum = 16 rows of `left` times the weight's columns from `column` on.
template <int kSteps, int kTiles, class Left, class Weight>
__device__ void multiply_rows(Accumulator (&sum)[kTiles], const Left& left, int row, const Weight& weight, int column) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) sum[n] = {};
#pragma unroll
  for (int s = 0; s < kSteps; ++s) {
    FragmentA<1> a;
    load_a(a, left.at(row, 16 * s), Left::kStride);
#pragma unroll
    for (int n = 0; n < kTiles; n += 2) {
      FragmentB<1> w[2];
      load_b_transposed(w, weight.at(16 * s, column + 8 * n), Weight::kStride);
      multiply_add(sum[n], a, w[0]);
      multiply_add(sum[n + 1], a, w[1]);
    }
  }
}

// sum += left^T right over the tiles' rows, of left's columns from `row` on and right's from `column` on.
template <int kRowTiles, int kColumnTiles, class Left, class Right>
__device__ void add_products(Accumulator (&sum)[kRowTiles][kColumnTiles], const Left& left, int row, const Right& right,
                             int column) {
#pragma unroll
  for (int s = 0; s < kTileRows / 16; ++s) {
    FragmentA<1> a[kRowTiles];
#pragma unroll
    for (int m = 0; m < kRowTiles; ++m) load_a_transposed(a[m], left.at(16 * s, row + 16 * m), Left::kStride);
#pragma unroll
    for (int n = 0; n < kColumnTiles; n += 2) {
      FragmentB<1> b[2];
      load_b_transposed(b, right.at(16 * s, column + 8 * n), Right::kStride);
#pragma unroll
      for (int m = 0; m < kRowTiles; ++m) {
        multiply_add(sum[m][n], a[m], b[0]);
        multiply_add(sum[m][n + 1], a[m], b[1]);
      }
    }
  }
}

// A layer's gradient in a warp's rows and columns: zero where the layer is, and added to the sums over the rows.
template <int kTiles, class Layer>
__device__ void through_relu(Accumulator (&d)[kTiles], const Layer& layer, int row, int column, float* sums) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int n = 0; n < kTiles; ++n)
#pragma unroll
    for (int r = 0; r < 2; ++r) {
      const float2 unit = load_pair(layer.at(row + g + 8 * r, column + 8 * n + 2 * t));
      if (unit.x == 0) d[n].x[2 * r] = 0;
      if (unit.y == 0) d[n].x[2 * r + 1] = 0;
    }
#pragma unroll
  for (int n = 0; n < kTiles; n += 4) {
    float both_rows[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) both_rows[i] = d[n + i / 2].x[i % 2] + d[n + i / 2].x[2 + i % 2];
    const float sum = sum_over_rows(both_rows);
    sums[column + 8 * (n + g / 2) + 2 * t + g % 2] += sum;
  }
}

template <int kTiles, class To>
__device__ void put(To& tile, int row, int column, const Accumulator (&x)[kTiles]) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) store(tile.at(row, column + 8 * n), To::kStride, x[n], 16, 8);
}

// The same to memory's rows of `stride` floats, as many columns from `column` on as there are.
template <int kTiles>
__device__ void write(float* rows_at, int stride, int column, const Accumulator (&x)[kTiles], int rows, int columns) {
#pragma unroll
  for (int n = 0; n < kTiles; ++n) store(rows_at + column + 8 * n, stride, x[n], rows, columns - column - 8 * n);
}

// d_output's rows to the tile, zeros after them and the outputs; a thread adds up those of its pair of outputs.
template <class To>
__device__ void load_d_output(To& tile, float2& sum, const float* d_output, int stride, std::int64_t rows) {
  constexpr int kPairs = kMostOutputs / 2;
  const int column = threadIdx.x % kPairs * 2;
#pragma unroll
  for (int row = threadIdx.x / kPairs; row < kTileRows; row += kThreads / kPairs) {
    const bool inside = row < rows && column < stride;
    const float2 d = inside ? load_pair(d_output + row * stride + column) : make_float2(0, 0);
    store_pair(tile.at(row, column), d.x, d.y);
    sum.x += d.x, sum.y += d.y;
  }
}

// A block takes tiles of 64 rows of one head, blockIdx.y, one after the other, and keeps the sums of the weights'
// gradients in registers: each warp those of a quarter of a weight's rows and half of its columns.
template <int kHidden, int kWidth>
__global__ void __launch_bounds__(kThreads, kHidden == 64 ? 2 : 1)
    backward_kernel(const __grid_constant__ BackwardArguments a) {
  extern __shared__ __align__(16) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kHidden, kWidth>*>(bytes);
  constexpr int kUnits = kHidden / 2, kChannels = kWidth / 2;  // columns of a warp
  constexpr int kWeightTiles = kHidden / kRowGroups / 16;      // rows of a weight
  const int head = blockIdx.y, warp = threadIdx.x / 32, group = warp % kRowGroups, half = warp / kRowGroups;
  const int row = 16 * group, unit = half * kUnits, channel = half * kChannels, weight_row = 16 * kWeightTiles * group;
  shared.weights.template load<kThreads>(a.weights[head], a.width, a.outputs);
  for (int i = threadIdx.x; i < kRowGroups * 2 * kHidden; i += kThreads)
    shared.bias[i / (2 * kHidden)][i % (2 * kHidden)] = 0;

  Accumulator d_weight1[kWeightTiles][kChannels / 8] = {}, d_weight2[kWeightTiles][kUnits / 8] = {};
  Accumulator d_weight3[1][2] = {};  // of 16 units, where there are as many
  float2 d_bias3 = make_float2(0, 0);
  for (int tile = blockIdx.x; tile < a.tiles; tile += gridDim.x) {
    const std::int64_t first_row = std::int64_t{tile} * kTileRows, rows = a.rows - first_row;
    const std::int64_t hidden_stride = std::int64_t{a.kept} * kHidden;
    const auto bring = [&](auto& to, const bf16* from, std::int64_t stride, int columns) {
      constexpr int kColumns = std::decay_t<decltype(to)>::kColumns;
      copy_rows<kTileRows, kColumns, kThreads>(to, 0, from + first_row * stride, stride, rows, columns, threadIdx.x);
    };
    __syncthreads();  // the tile before is read
    bring(shared.second, a.second + head * kHidden, hidden_stride, kHidden);
    bring(shared.first, a.first + head * kHidden, hidden_stride, kHidden);
    bring(shared.x, a.x, a.stride, a.stride);
    load_d_output(shared.d_output, d_bias3, a.d_output[head] + first_row * a.output_stride, a.output_stride, rows);
    wait_for_copies();
    __syncthreads();

    // A layer's gradient takes the layer's place when all warps have read it.
    {
      Accumulator d_second[kUnits / 8];
      multiply_rows<1>(d_second, shared.d_output, row, shared.weights.third, unit);
      if (16 * warp < kHidden) add_products(d_weight3, shared.d_output, 0, shared.second, 16 * warp);
      through_relu(d_second, shared.second, row, unit, shared.bias[group] + kHidden);
      __syncthreads();
      put(shared.second, row, unit, d_second);
      __syncthreads();
    }
    {
      Accumulator d_first[kUnits / 8];
      multiply_rows<kHidden / 16>(d_first, shared.second, row, shared.weights.second, unit);
      add_products(d_weight2, shared.second, weight_row, shared.first, unit);
      through_relu(d_first, shared.first, row, unit, shared.bias[group]);
      __syncthreads();
      put(shared.first, row, unit, d_first);
      __syncthreads();
    }
    Accumulator d_x[kChannels / 8];
    multiply_rows<kHidden / 16>(d_x, shared.first, row, shared.weights.first, channel);
    float* const share = a.d_x_shares + (head * a.rows + first_row + row) * a.stride;
    write(share, a.stride, channel, d_x, static_cast<int>(min(rows - row, std::int64_t{16})), a.stride);
    add_products(d_weight1, shared.first, weight_row, shared.x, channel);
  }

  float* const sums = a.sums + std::int64_t{blockIdx.x} * a.layout.size;
#pragma unroll
  for (int m = 0; m < kWeightTiles; ++m) {
    const int of_heads = head * kHidden + weight_row + 16 * m;
    write(sums + of_heads * a.stride, a.stride, channel, d_weight1[m], 16, a.stride);
    write(sums + a.layout.weight2 + of_heads * kHidden, kHidden, unit, d_weight2[m], 16, kHidden);
  }
  if (16 * warp < kHidden)
    write(sums + a.layout.weight3 + head * a.output_stride * kHidden, kHidden, 16 * warp, d_weight3[0], a.output_stride,
          kHidden);
#pragma unroll
  for (int lanes = 8; lanes < 32; lanes *= 2) {
    d_bias3.x += __shfl_xor_sync(0xffffffffu, d_bias3.x, lanes);
    d_bias3.y += __shfl_xor_sync(0xffffffffu, d_bias3.y, lanes);
  }
  if (lane_id() < kMostOutputs / 2) store_pair(&shared.bias3[warp][2 * lane_id()], d_bias3.x, d_bias3.y);
  __syncthreads();
  for (int i = threadIdx.x; i < 2 * kHidden; i += kThreads) {
    float sum = 0;
    for (int part = 0; part < kRowGroups; ++part) sum += shared.bias[part][i];
    sums[(i < kHidden ? a.layout.bias1 : a.layout.bias2) + head * kHidden + i % kHidden] = sum;
  }
  if (const int i = threadIdx.x; i < a.output_stride) {
    float sum = 0;
    for (int part = 0; part < kWarps; ++part) sum += shared.bias3[part][i];
    sums[a.layout.bias3 + head * a.output_stride + i] = sum;
  }
}

// d_x = the sum of the heads' shares, eight elements a thread.
__global__ void __launch_bounds__(kThreads)
    add_shares_kernel(const float* shares, std::int64_t elements, int kept, int width, int stride, bf16* d_x) {
  const std::int64_t i = (std::int64_t{blockIdx.x} * kThreads + threadIdx.x) * kVector;
  if (i >= elements) return;
  RowVector sum = load_vector(shares + i);
  for (int head = 1; head < kept; ++head) {
    const RowVector share = load_vector(shares + head * elements + i);
#pragma unroll
    for (int k = 0; k < kVector; ++k) sum.x[k] += share.x[k];
  }
  const int column = static_cast<int>(i % stride);
#pragma unroll
  for (int k = 0; k < kVector; ++k)
    if (column + k >= width) sum.x[k] = 0;
  store_vector(d_x + i, sum);
}

int blocks_of(const MlpHeadsShape& shape) { return row_blocks(shape, shape.kept, shape.hidden == 64 ? 2 : 1); }
std::size_t sums_bytes(const MlpHeadsShape& shape) { return sizeof(float) * blocks_of(shape) * SumsLayout(shape).size; }

}  // namespace
}  // namespace narrow

Support supports_narrow_heads(const MlpHeadsShape& shape) {
  if (Support sizes = supports_narrow_heads_sizes(shape); !sizes) return sizes;
  const std::size_t bytes = narrow::for_sizes(
      shape, [](auto hidden, auto width) { return sizeof(narrow::Shared<hidden, width>); });  // more than forward's
  const int most = cuda_device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin);
  if (bytes <= static_cast<std::size_t>(most)) return {};
  return Support::no(std::to_string(bytes) + " bytes of shared memory are more than the GPU's " + std::to_string(most));
}

std::size_t narrow_heads_backward_scratch_bytes(const MlpHeadsShape& shape) {
  if (shape.kept == 0) return 0;
  return narrow::sums_bytes(shape) + sizeof(float) * shape.kept * shape.rows * shape.stride;
}

void narrow_heads_backward(const NarrowHeadsBackward& backward, void* scratch, cudaStream_t stream) {
  const MlpHeadsShape& shape = backward.shape;
  narrow::check_shape(shape, "narrow_heads_backward");
  if (shape.kept == 0) throw std::runtime_error("narrow_heads_backward: no head was kept");
  auto* const sums = static_cast<float*>(scratch);
  narrow::BackwardArguments arguments{narrow::arguments_of(shape, backward.x_MP, backward.weights, shape.kept),
                                      static_cast<const bf16*>(backward.first),
                                      static_cast<const bf16*>(backward.second),
                                      {},
                                      narrow::SumsLayout(shape),
                                      sums,
                                      sums + narrow::sums_bytes(shape) / sizeof(float)};
  std::copy_n(backward.d_output_MA, shape.kept, arguments.d_output);
  narrow::for_sizes(shape, [&](auto hidden, auto width) {
    launch(narrow::backward_kernel<hidden, width>,
           dim3(static_cast<unsigned>(narrow::blocks_of(shape)), static_cast<unsigned>(shape.kept)), narrow::kThreads,
           sizeof(narrow::Shared<hidden, width>), stream, "narrow_heads_backward", arguments);
  });
  const std::int64_t elements = shape.rows * shape.stride;
  constexpr std::int64_t kElementsOfBlock = narrow::kThreads * kVector;
  launch(narrow::add_shares_kernel, static_cast<unsigned>((elements + kElementsOfBlock - 1) / kElementsOfBlock),
         narrow::kThreads, 0, stream, "narrow_heads_backward", static_cast<const float*>(arguments.d_x_shares),
         elements, shape.kept, shape.width, shape.stride, static_cast<bf16*>(backward.d_x_MP));
}

std::vector<GradientSum> narrow_heads_sums(const MlpHeadsShape& shape, const void* scratch,
                                           const NarrowHeadsGradients& gradients) {
  const narrow::SumsLayout layout(shape);
  const auto* const sums = static_cast<const float*>(scratch);
  const int blocks = narrow::blocks_of(shape), units = shape.kept * shape.hidden;
  const auto matrix = [&](int begin, int stride, PackGroups rows, int width, float* gradient) {
    return GradientSum{sums + begin, blocks, stride, layout.size, rows, {width, width, width}, gradient};
  };
  const PackGroups all_units{units, units, units},
      outputs{shape.kept * shape.outputs, shape.outputs, shape.output_stride()};
  return {matrix(0, shape.stride, all_units, shape.width, gradients.weight1_ID),
          matrix(layout.weight2, shape.hidden, all_units, shape.hidden, gradients.weight2_II),
          matrix(layout.weight3, shape.hidden, outputs, shape.hidden, gradients.weight3_AI),
          vector_sum(sums + layout.bias1, blocks, layout.size, layout.size - layout.bias1, gradients.bias)};
}

}  // namespace engram
