#include <cooperative_groups.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/common/cuda_support.h"
#include "kernels/common/tensor_core.cuh"
#include "kernels/recurrences/gated_rnn/cell.h"
#include "kernels/recurrences/gated_rnn/gated_rnn.h"

namespace engram {
namespace {

namespace cg = cooperative_groups;
using namespace gated_rnn;

constexpr int kMostChannels = 64;  // of a block; more are spread over a cluster
// Of a cluster. With one gate a block has fewer threads, and each of them registers for twice as many weights.
constexpr int most_blocks(int gates) { return gates == 1 ? 8 : 4; }

constexpr int kAhead = 4;  // steps: what they read is on its way, which takes longer than a step

// A step's saved numbers of a pair of channels: 4 or 16 bytes.
template <class Cell>
struct alignas(sizeof(__half2) * Cell::kSaved) SavedPair {
  __half2 number[Cell::kSaved];
};
template <class Cell>
__device__ void store(SavedPair<Cell>* to, const SavedPair<Cell>& pair) {
  using Word = std::conditional_t<sizeof(pair) == 16, uint4, unsigned>;  // in one instruction
  static_assert(sizeof(Word) == sizeof(pair));
  Word word;
  memcpy(&word, &pair, sizeof word);
  *reinterpret_cast<Word*>(to) = word;
}

// What the backward pass reads of a pair of channels at t - 1: c, or h in bfloat16.
template <class Cell>
using Before = std::conditional_t<Cell::kHasCell, float2, std::uint32_t>;

// The work of a group of at most kRows rows, 8 or 16, which goes through its steps together: `cluster` blocks have
// `channels` channels each, and a warp of a block a gate of 16 of them.
template <class Cell, int kSteps, int kRows>
struct Sizes {
  static constexpr int rows = kRows;
  static constexpr int width = 16 * kSteps;  // D, padded
  static constexpr int channels = width < kMostChannels ? width : kMostChannels;
  static constexpr int cluster = width / channels;
  static constexpr int tiles = channels / 16;
  static constexpr int threads = 32 * Cell::kGates * tiles;
  static constexpr int pairs = channels / 2;  // of channels: a thread has one, of some rows
  static constexpr int rows_at_once = threads / pairs;
  static constexpr int turns = (kRows + rows_at_once - 1) / rows_at_once;
  // Elements between rows in shared memory, so that a warp's reads and writes fall on different banks.
  static constexpr int operand_stride = width + 8;
  static constexpr int sum_stride = channels + 4;
  static constexpr int operand = kRows * operand_stride;
  static constexpr int sums = Cell::kGates * kRows * sum_stride;
  static constexpr int places = kRows * pairs;  // of the ring: a pair of channels of a row
  // What a thread reads ahead of a pair of channels: forward its gates, backward what is saved, c_{t-1} or
  // h_{t-1}, and the gradient of h_t.
  static constexpr std::size_t forward_place = Cell::kGates * sizeof(std::uint32_t);
  static constexpr std::size_t backward_place = sizeof(SavedPair<Cell>) + sizeof(Before<Cell>) + sizeof(std::uint32_t);
  static constexpr std::size_t bytes(int operands, std::size_t place) {
    return sums * sizeof(float) + std::size_t{2} * operands * operand * sizeof(bf16) + kAhead * places * place;
  }
};

// The block's place among all, and what its threads have.
template <class SizeOf>
struct Place {
  using Size = SizeOf;

  __device__ Place(const GatedRnn& problem, int group_rows)
      : rows(group_rows),
        rank(static_cast<int>(blockIdx.x) % Size::cluster),
        first_row(static_cast<int>(blockIdx.x) / Size::cluster * group_rows),
        gate(static_cast<int>(threadIdx.x) / 32 / Size::tiles),
        tile(static_cast<int>(threadIdx.x) / 32 % Size::tiles),
        pair(static_cast<int>(threadIdx.x) % Size::pairs),
        turn(static_cast<int>(threadIdx.x) / Size::pairs),
        channel(rank * Size::channels + 2 * pair),
        active(channel < problem.width) {
    for (int n = 0; n < rows; ++n) steps = max(steps, length_of(problem, n));
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) length[i] = owns(problem, row(i)) ? length_of(problem, row(i)) : 0;
  }

  __device__ int row(int i) const { return turn + i * Size::rows_at_once; }  // of the group
  __device__ int length_of(const GatedRnn& problem, int n) const {
    return first_row + n < problem.batch ? problem.length_B[first_row + n] : 0;
  }
  // Whether the thread has row n of the group, and its channels are there.
  __device__ bool owns(const GatedRnn& problem, int n) const {
    return active && n < rows && first_row + n < problem.batch;
  }
  __device__ std::int64_t step(const GatedRnn& problem, int n, int t) const {
    return static_cast<std::int64_t>(first_row + n) * problem.time + t;
  }
  // Of the thread's i-th pair of channels, in the ring's part that step t has.
  __device__ int in_ring(int i, int t) const { return t % kAhead * Size::places + row(i) * Size::pairs + pair; }

  int rows;  // of the group
  int rank, first_row, gate, tile, pair, turn, channel;
  bool active;
  int length[Size::turns];  // of the thread's rows
  int steps = 0;            // of the group's longest row
};

// All blocks of a cluster have come here, and see what the others wrote.
template <int kCluster>
__device__ void meet() {
  if constexpr (kCluster == 1) {
    __syncthreads();
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
    cg::this_cluster().sync();
#endif
  }
}

// Writes a pair of channels into the operand of every block of the cluster.
template <int kCluster>
__device__ void tell(bf16* operand, float low, float high) {
  const std::uint32_t packed = pack_bf16(low, high);
  if constexpr (kCluster == 1) {
    *reinterpret_cast<std::uint32_t*>(operand) = packed;
  } else {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 900
#pragma unroll
    for (int rank = 0; rank < kCluster; ++rank)
      *reinterpret_cast<std::uint32_t*>(cg::this_cluster().map_shared_rank(operand, rank)) = packed;
#endif
  }
}

// A warp's part of U, or of its transpose: 16 channels of the block by the whole width, kept in registers.
template <int kSteps>
struct Weights {
  FragmentA<1> step[kSteps];
};
template <bool kTransposed, class Size, int kSteps>
__device__ void load(Weights<kSteps>& weights, const GatedRnn& problem, const Place<Size>& place) {
  const int lane = lane_id(), width = problem.width;
  const auto* const gate = problem.recurrent_XD + static_cast<std::int64_t>(place.gate) * width * width;
  const auto at = [&](int m, int k) {
    if (m >= width || k >= width) return 0.0f;
    return __bfloat162float(kTransposed ? gate[static_cast<std::int64_t>(k) * width + m]
                                        : gate[static_cast<std::int64_t>(m) * width + k]);
  };
#pragma unroll
  for (int s = 0; s < kSteps; ++s)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int m = place.rank * Size::channels + 16 * place.tile + lane / 4 + i % 2 * 8;
      const int k = 16 * s + i / 2 * 8 + 2 * (lane % 4);
      weights.step[s].plane[0][i] = pack_bf16(at(m, k), at(m, k + 1));
    }
}

// Right operands of two steps for 8 rows: b[0] has k 0-15, b[1] has k 16-31. B(k, n) = p[n * stride + k]
__device__ void load_two_steps(FragmentB<1> (&b)[2], const bf16* p, int stride) {
  const int lane = lane_id();
  std::uint32_t x[4];
  load_matrices<false>(x, p + lane % 8 * stride + lane / 8 * 8);
  b[0].plane[0][0] = x[0], b[0].plane[0][1] = x[1], b[1].plane[0][0] = x[2], b[1].plane[0][1] = x[3];
}

// A warp's weights times the operand [n][k]. Even and odd steps have sums of their own, so that half as many wait for
// each other.
template <class Size>
struct Product {
  static constexpr int kHalves = Size::rows / 8;
  Accumulator sum[2][kHalves];
};
template <class Size, int kSteps>
__device__ Product<Size> multiply(const Weights<kSteps>& weights, const bf16* operand) {
  constexpr int kHalves = Product<Size>::kHalves;
  Product<Size> product = {};
  auto& sum = product.sum;
#pragma unroll
  for (int s = 0; s < kSteps; s += 2) {
    FragmentB<1> b[2][2];
    if constexpr (kHalves == 1) {
      load_two_steps(b[0], operand + 16 * s, Size::operand_stride);
      multiply_add(sum[0][0], weights.step[s], b[0][0]);
      multiply_add(sum[1][0], weights.step[s + 1], b[0][1]);
    } else {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        load_b(b[i], operand + 16 * (s + i), Size::operand_stride);
#pragma unroll
        for (int half = 0; half < kHalves; ++half) multiply_add(sum[i][half], weights.step[s + i], b[i][half]);
      }
    }
  }
  return product;
}

// sums[gate][n][channel]
template <class Size>
__device__ void put(const Product<Size>& product, const Place<Size>& place, float* sums) {
  const int lane = lane_id();
#pragma unroll
  for (int half = 0; half < Product<Size>::kHalves; ++half)
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      const int n = 8 * half + 2 * (lane % 4) + i % 2, channel = 16 * place.tile + lane / 4 + i / 2 * 8;
      sums[(place.gate * Size::rows + n) * Size::sum_stride + channel] =
          product.sum[0][half].x[i] + product.sum[1][half].x[i];
    }
}

template <class Size>
__device__ float2 pair_of(const float* sums, int gate, int n, const Place<Size>& place) {
  return *reinterpret_cast<const float2*>(sums + (gate * Size::rows + n) * Size::sum_stride + 2 * place.pair);
}

template <class Cell, int kSteps, int kRows>
__global__ void __launch_bounds__(Sizes<Cell, kSteps, kRows>::threads)
    forward_kernel(const __grid_constant__ GatedRnn problem, int group_rows, const bf16* gates_BTX, bf16* h_BTD,
                   GatedRnnSaved saved) {
  using Size = Sizes<Cell, kSteps, kRows>;
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const sums = reinterpret_cast<float*>(bytes);
  auto* const operands = reinterpret_cast<bf16*>(sums + Size::sums);
  // [kAhead, gate, place]
  auto* const ring = reinterpret_cast<std::uint32_t*>(operands + 2 * Size::operand);
  const Place<Size> place(problem, group_rows);
  const int width = problem.width, squashed = width - problem.linear;
  Weights<kSteps> weights;
  load<false>(weights, problem, place);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * Size::operand; i += Size::threads) operands[i] = bf16(0.0f);

  float2 hidden[Size::turns] = {}, cell[Size::turns] = {};
  float2 candidate_bias{};
  if (problem.candidate_bias_D != nullptr && place.active)
    candidate_bias = load_pair(problem.candidate_bias_D + place.channel);
  // Walk from step to step: [row, t, channel] of h and all that has its form, and the gates that are read next.
  std::int64_t at[Size::turns];
  const bf16* from[Size::turns];
#pragma unroll
  for (int i = 0; i < Size::turns; ++i) {
    const std::int64_t first = place.step(problem, place.row(i), 0) * width;
    at[i] = first + place.channel, from[i] = gates_BTX + first * Cell::kGates + place.channel;
  }
  const auto fetch = [&](int t) {  // called with 0, 1, 2, ...
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) {
      if (t < place.length[i]) {
#pragma unroll
        for (int gate = 0; gate < Cell::kGates; ++gate)
          copy_async<4>(ring + gate * kAhead * Size::places + place.in_ring(i, t), from[i] + gate * width, true);
      }
      from[i] += Cell::kGates * width;
    }
    commit_copies();
  };
  for (int t = 0; t < kAhead; ++t) fetch(t);
#pragma unroll
  for (int i = 0; i < Size::turns; ++i)
    if (place.owns(problem, place.row(i))) store_pair(saved.h_before_BTD + at[i], 0, 0);
  meet<Size::cluster>();

  for (int t = 0; t < place.steps; ++t) {
    // While the products are under way: what the step reads is taken from the ring, and its place filled anew.
    const Product<Size> product = multiply<Size>(weights, operands + t % 2 * Size::operand);
    wait_for_groups<kAhead - 1>();
    std::uint32_t gates[Size::turns][Cell::kGates];
#pragma unroll
    for (int i = 0; i < Size::turns; ++i)
      if (t < place.length[i])
#pragma unroll
        for (int gate = 0; gate < Cell::kGates; ++gate)
          gates[i][gate] = ring[gate * kAhead * Size::places + place.in_ring(i, t)];
    fetch(t + kAhead);
    put(product, place, sums);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) {
      const int n = place.row(i);
      if (t >= place.length[i]) continue;
      float input[2][Cell::kGates], recurrent[2][Cell::kGates], kept[2][Cell::kSaved];
#pragma unroll
      for (int gate = 0; gate < Cell::kGates; ++gate) {
        const float2 sum = pair_of(sums, gate, n, place);
        const bool biased = Cell::kHasCandidateBias && gate == 2;
        recurrent[0][gate] = sum.x + (biased ? candidate_bias.x : 0);
        recurrent[1][gate] = sum.y + (biased ? candidate_bias.y : 0);
        input[0][gate] = unpack_low(gates[i][gate]), input[1][gate] = unpack_high(gates[i][gate]);
      }
      hidden[i].x = Cell::next(input[0], recurrent[0], hidden[i].x, cell[i].x, kept[0], place.channel >= squashed);
      hidden[i].y = Cell::next(input[1], recurrent[1], hidden[i].y, cell[i].y, kept[1], place.channel + 1 >= squashed);
      tell<Size::cluster>(operands + (t + 1) % 2 * Size::operand + n * Size::operand_stride + place.channel,
                          hidden[i].x, hidden[i].y);
      store_pair(h_BTD + at[i], hidden[i].x, hidden[i].y);
      if (t + 1 < problem.time) store_pair(saved.h_before_BTD + at[i] + width, hidden[i].x, hidden[i].y);
      if constexpr (Cell::kHasCell) store_pair(saved.cells_BTD + at[i], cell[i].x, cell[i].y);
      SavedPair<Cell> pair;
#pragma unroll
      for (int j = 0; j < Cell::kSaved; ++j) pair.number[j] = __floats2half2_rn(kept[0][j], kept[1][j]);
      store(reinterpret_cast<SavedPair<Cell>*>(saved.gates_BTPY) + at[i] / 2, pair);
      at[i] += width;
    }
    meet<Size::cluster>();
  }
#pragma unroll
  for (int i = 0; i < Size::turns; ++i) {
    const int n = place.row(i);
    if (!place.owns(problem, n)) continue;
    for (int t = place.length[i]; t < problem.time; ++t) {
      const std::int64_t at = place.step(problem, n, t) * width + place.channel;
      store_pair(h_BTD + at, 0, 0);
      if (t + 1 < problem.time) store_pair(saved.h_before_BTD + at + width, 0, 0);
    }
    // The step behind the last has had the last h, which nothing of it reads; zero, as what follows.
    if (place.length[i] < problem.time)
      store_pair(saved.h_before_BTD + place.step(problem, n, place.length[i]) * width + place.channel, 0, 0);
  }
}

template <class Cell, int kSteps, int kRows>
__global__ void __launch_bounds__(Sizes<Cell, kSteps, kRows>::threads)
    backward_kernel(const __grid_constant__ GatedRnn problem, int group_rows, GatedRnnSaved saved,
                    const bf16* h_gradient_BTD, bf16* gates_gradient_BTX, bf16* candidate_gradient_BTD) {
  using Size = Sizes<Cell, kSteps, kRows>;
  constexpr int kOperands = Cell::kGates * Size::operand;  // of a step: every gate has its own
  extern __shared__ __align__(16) unsigned char bytes[];
  auto* const sums = reinterpret_cast<float*>(bytes);
  auto* const operands = reinterpret_cast<bf16*>(sums + Size::sums);
  // [kAhead, place] each
  auto* const saved_ring = reinterpret_cast<SavedPair<Cell>*>(operands + 2 * kOperands);
  auto* const before_ring = reinterpret_cast<Before<Cell>*>(saved_ring + kAhead * Size::places);
  auto* const gradient_ring = reinterpret_cast<std::uint32_t*>(before_ring + kAhead * Size::places);
  const Place<Size> place(problem, group_rows);
  const int width = problem.width;
  Weights<kSteps> weights;
  load<true>(weights, problem, place);
  for (int i = static_cast<int>(threadIdx.x); i < 2 * kOperands; i += Size::threads) operands[i] = bf16(0.0f);
  for (int i = static_cast<int>(threadIdx.x); i < Size::sums; i += Size::threads) sums[i] = 0;

  // Walk from a step to the one before: [row, t, channel] of what is read next, and of the gates' gradient.
  std::int64_t at[Size::turns];
  bf16* to[Size::turns];
#pragma unroll
  for (int i = 0; i < Size::turns; ++i) {
    const std::int64_t last = place.step(problem, place.row(i), place.steps - 1) * width;
    at[i] = last + place.channel, to[i] = gates_gradient_BTX + last * Cell::kGates + place.channel;
  }
  const auto fetch = [&](int t) {  // called with the last step, the one before, ...
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) {
      if (t >= 0 && t < place.length[i]) {
        const int to_ring = place.in_ring(i, t);
        copy_async<4>(gradient_ring + to_ring, h_gradient_BTD + at[i], true);
        copy_async<sizeof(SavedPair<Cell>)>(
            saved_ring + to_ring, reinterpret_cast<const SavedPair<Cell>*>(saved.gates_BTPY) + at[i] / 2, true);
        if constexpr (Cell::kHasCell)
          copy_async<8>(before_ring + to_ring, saved.cells_BTD + (t > 0 ? at[i] - width : at[i]), t > 0);
        else
          copy_async<4>(before_ring + to_ring, saved.h_before_BTD + at[i], true);
      }
      at[i] -= width;
    }
    commit_copies();
  };
  float2 past[Size::turns] = {}, d_cell[Size::turns] = {}, cell[Size::turns] = {};  // past: beside the product
  if constexpr (Cell::kHasCell) {
#pragma unroll
    for (int i = 0; i < Size::turns; ++i)
      if (place.length[i] > 0)
        cell[i] =
            load_pair(saved.cells_BTD + place.step(problem, place.row(i), place.length[i] - 1) * width + place.channel);
  }
  for (int i = 1; i <= kAhead; ++i) fetch(place.steps - i);
  SavedPair<Cell> numbers[Size::turns];
  Before<Cell> before[Size::turns];
  std::uint32_t d_hidden[Size::turns];
  const auto take = [&](int t) {  // what step t reads, out of the ring
    wait_for_groups<kAhead - 1>();
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) {
      if (t < 0 || t >= place.length[i]) continue;
      const int in_ring = place.in_ring(i, t);
      numbers[i] = saved_ring[in_ring], before[i] = before_ring[in_ring], d_hidden[i] = gradient_ring[in_ring];
    }
  };
  take(place.steps - 1);
  meet<Size::cluster>();

  for (int t = place.steps - 1; t >= 0; --t) {
    bf16* const operand = operands + t % 2 * kOperands;
#pragma unroll
    for (int i = 0; i < Size::turns; ++i) {
      bf16* const input_gradient = to[i];
      to[i] -= Cell::kGates * width;
      const int n = place.row(i);
      if (t >= place.length[i]) continue;
      float2 d = past[i];
#pragma unroll
      for (int gate = 0; gate < Cell::kGates; ++gate) {
        const float2 sum = pair_of(sums, gate, n, place);
        d.x += sum.x, d.y += sum.y;
      }
      d.x += unpack_low(d_hidden[i]), d.y += unpack_high(d_hidden[i]);
      float kept[2][Cell::kSaved];
#pragma unroll
      for (int j = 0; j < Cell::kSaved; ++j) {
        const float2 both = __half22float2(numbers[i].number[j]);
        kept[0][j] = both.x, kept[1][j] = both.y;
      }
      float2 h_before{}, cell_before{};
      if constexpr (Cell::kHasCell)
        cell_before = before[i];
      else
        h_before = {unpack_low(before[i]), unpack_high(before[i])};
      const CellGradient low = Cell::back(kept[0], h_before.x, cell_before.x, cell[i].x, d.x, d_cell[i].x),
                         high = Cell::back(kept[1], h_before.y, cell_before.y, cell[i].y, d.y, d_cell[i].y);
      past[i] = {low.d_hidden, high.d_hidden};
      cell[i] = cell_before;
#pragma unroll
      for (int gate = 0; gate < Cell::kGates; ++gate) {
        tell<Size::cluster>(operand + gate * Size::operand + n * Size::operand_stride + place.channel,
                            low.d_recurrent[gate], high.d_recurrent[gate]);
        store_pair(input_gradient + gate * width, low.d_input[gate], high.d_input[gate]);
      }
      if constexpr (Cell::kHasCandidateBias)
        store_pair(candidate_gradient_BTD + place.step(problem, n, t) * width + place.channel, low.d_recurrent[2],
                   high.d_recurrent[2]);
    }
    meet<Size::cluster>();
    const Product<Size> product = multiply<Size>(weights, operand + place.gate * Size::operand);
    fetch(t - kAhead);
    take(t - 1);
    put(product, place, sums);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < Size::turns; ++i) {
    const int n = place.row(i);
    if (!place.owns(problem, n)) continue;
    for (int t = place.length[i]; t < problem.time; ++t) {
      const std::int64_t step = place.step(problem, n, t);
      for (int gate = 0; gate < Cell::kGates; ++gate)
        store_pair(gates_gradient_BTX + (step * Cell::kGates + gate) * width + place.channel, 0, 0);
      if constexpr (Cell::kHasCandidateBias) store_pair(candidate_gradient_BTD + step * width + place.channel, 0, 0);
    }
  }
  // Nobody leaves while another block may still write to it: the last meeting was before the last product.
}

int ceil_div(int a, int b) { return (a + b - 1) / b; }

// Of a group, so that all groups are at work at once, on multiprocessors of their own. Those of a cluster are
// neighbours, of 16 or 18, of which a cluster of four leaves two unused.
template <class Size>
int least_rows(int batch) {
  const int count = cuda_device_attribute(cudaDevAttrMultiProcessorCount);
  const int groups = Size::cluster <= 2 ? count / Size::cluster : count / 16 * (16 / Size::cluster);
  return ceil_div(batch, std::max(1, groups));
}

// Of a group. The fewer they are, the fewer cells a thread computes in a step.
template <class Size>
int group_rows(int batch) {
  return std::min(least_rows<Size>(batch), Size::rows);
}

template <class Size, class... Parameters, class... Arguments>
void start(void (*kernel)(Parameters...), std::size_t bytes, const GatedRnn& problem, cudaStream_t stream,
           const char* name, const Arguments&... arguments) {
  check_cuda(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(bytes)), name);
  const int rows = group_rows<Size>(problem.batch);
  cudaLaunchConfig_t launch{};
  launch.gridDim = dim3(static_cast<unsigned>(ceil_div(problem.batch, rows) * Size::cluster));
  launch.blockDim = dim3(Size::threads);
  launch.dynamicSmemBytes = bytes;
  launch.stream = stream;
  cudaLaunchAttribute cluster{};
  cluster.id = cudaLaunchAttributeClusterDimension;
  cluster.val.clusterDim.x = Size::cluster, cluster.val.clusterDim.y = 1, cluster.val.clusterDim.z = 1;
  launch.attrs = &cluster;
  launch.numAttrs = Size::cluster > 1 ? 1 : 0;
  check_cuda(cudaLaunchKernelEx(&launch, kernel, problem, rows, arguments...), name);
}

// Calls run(Cell{}, steps, rows) with the smallest width of 16 steps that holds the problem's, as a constant; and with
// room for 8 rows in a group, whose products are shorter, where these are enough.
template <class Run>
void dispatch(const GatedRnn& problem, const Run& run) {
  const int width = problem.width;
  if (problem.batch < 1 || problem.time < 1 || !supports_gated_rnn(problem.cell, width) ||
      problem.batch > std::numeric_limits<int>::max() / 4 ||
      (problem.candidate_bias_D != nullptr) != (problem.cell == GatedCell::kGru) || problem.linear < 0 ||
      problem.linear > (problem.cell == GatedCell::kElman ? width : 0))
    throw std::runtime_error("gated cells: " + std::to_string(problem.batch) + " rows of " +
                             std::to_string(problem.time) + " steps with " + std::to_string(width) + " channels, " +
                             std::to_string(problem.linear) + " of them linear");
  const auto with_steps = [&](auto cell, auto steps) {
    using Small = Sizes<decltype(cell), steps(), 8>;
    if (least_rows<Small>(problem.batch) <= Small::rows)
      run(cell, steps, std::integral_constant<int, 8>{});
    else
      run(cell, steps, std::integral_constant<int, 16>{});
  };
  const auto with_cell = [&](auto cell) {
    if (width <= 32)
      with_steps(cell, std::integral_constant<int, 2>{});
    else if (width <= 64)
      with_steps(cell, std::integral_constant<int, 4>{});
    else if (width <= 128)
      with_steps(cell, std::integral_constant<int, 8>{});
    else if (width <= 256)
      with_steps(cell, std::integral_constant<int, 16>{});
    else if constexpr (most_blocks(decltype(cell)::kGates) == 8)
      with_steps(cell, std::integral_constant<int, 32>{});
  };
  of_cell(problem.cell, with_cell);
}

}  // namespace

Support supports_gated_rnn(GatedCell cell, int width) {
  const int most = most_blocks(gates_of(cell)) * kMostChannels;
  const auto no = [&](const std::string& why) { return Support::no("a width of " + std::to_string(width) + why); };
  if (width < 2 || width % 2 != 0) return no(" is not even");
  if (width > most) return no(" is more than " + std::to_string(most));
  if (int devices = 0; width > kMostChannels && cudaGetDeviceCount(&devices) == cudaSuccess && devices > 0 &&
                       cuda_device_attribute(cudaDevAttrComputeCapabilityMajor) < 9)
    return no(" needs a GPU of compute capability 9.0 or later");
  return {};
}

void gated_rnn_forward(const GatedRnn& problem, const bf16* gates_BTX, bf16* h_BTD, const GatedRnnSaved& saved,
                       cudaStream_t stream) {
  dispatch(problem, [&](auto cell, auto steps, auto rows) {
    using Size = Sizes<decltype(cell), steps(), rows()>;
    start<Size>(forward_kernel<decltype(cell), steps(), rows()>, Size::bytes(1, Size::forward_place), problem, stream,
                "gated cells, forward", gates_BTX, h_BTD, saved);
  });
}

void gated_rnn_backward(const GatedRnn& problem, const GatedRnnSaved& saved, const bf16* h_gradient_BTD,
                        bf16* gates_gradient_BTX, bf16* candidate_gradient_BTD, cudaStream_t stream) {
  dispatch(problem, [&](auto cell, auto steps, auto rows) {
    using Size = Sizes<decltype(cell), steps(), rows()>;
    start<Size>(backward_kernel<decltype(cell), steps(), rows()>,
                Size::bytes(decltype(cell)::kGates, Size::backward_place), problem, stream, "gated cells, backward",
                saved, h_gradient_BTD, gates_gradient_BTX, candidate_gradient_BTD);
  });
}

}  // namespace engram
