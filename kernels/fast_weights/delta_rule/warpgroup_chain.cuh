// The chain by one warpgroup a head (README.md, "By one warpgroup"): what its forward and its backward kernel share. A
// block is one head of one row. Its first warpgroup multiplies, everything held transposed, values x steps and values x
// keys: a product's result is the layout of the next one's left operand, so that nothing passes between threads. The
// second warpgroup brings the next chunks to shared memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>

#include "base/support.h"
#include "kernels/common/wgmma.cuh"
#include "kernels/fast_weights/delta_rule/chunk_layout.cuh"
#include "kernels/fast_weights/delta_rule/segments.cuh"

namespace engram::delta_rule {

// What the forward chain writes.
template <typename T>
struct ForwardOutput {
  T* output;
  T* state;  // states at the chunks' starts
  T* error;  // not of the sum rule, whose errors are the values
};

template <typename T>
struct BackwardScratch;

template <typename Rule, typename T>
constexpr bool kHasWarpgroupChain = Rule::kDelta && sizeof(T) == 2;

inline void require(const Support& support) {
  if (!support) throw std::runtime_error("delta rule: a warpgroup's chain: " + support.reason());
}

template <typename Rule>
void launch_warpgroup_forward(const Problem<bf16>& problem, const Prepared<bf16>& prepared,
                              const ForwardOutput<bf16>& out, cudaStream_t stream);
// The recurrence of the backward pass; rows of the output's gradient are contiguous.
template <typename Rule>
void launch_warpgroup_backward(const Problem<bf16>& problem, const bf16* output_gradient,
                               const Prepared<bf16>& prepared, const BackwardScratch<bf16>& scratch,
                               cudaStream_t stream);
// The same of heads padded to 128, in segments; `joints` are used where these are more than one.
template <typename Rule>
void launch_wide_forward(const Problem<bf16>& problem, const Prepared<bf16>& prepared, const ForwardOutput<bf16>& out,
                         const Joints& joints, cudaStream_t stream);
template <typename Rule>
void launch_wide_backward(const Problem<bf16>& problem, const bf16* output_gradient, const Prepared<bf16>& prepared,
                          const BackwardScratch<bf16>& scratch, const Joints& joints, cudaStream_t stream);

namespace warpgroup {

constexpr int kSteps = kChunk<bf16>, kWidth = 64, kBlocks = kSteps / 16;
constexpr int kRegisters = kSteps / 2;  // a thread's of a product of 64 columns
constexpr int kThreads = 2 * kWarpgroup;
constexpr int kBlocksTogether = 2;  // half of a multiprocessor's registers each
[[maybe_unused]] constexpr int kCopyRegisters = 40, kComputeRegisters = 208;
static_assert(kSteps == kWidth);

// Rows: steps; the pad is for products over steps. Wider tiles only have more columns.
template <int kColumns>
using RowTileOf = BlockTile<kSteps, kColumns, 8>;
using RowTile = RowTileOf<kWidth>;
using TriangleTile = BlockTile<16, Triangles<bf16>::kElements / 16>;  // the blocks of Triangles beside each other

template <int kColumns, bool kReads>
struct StageQueries {
  bf16 q[RowTileOf<kColumns>::kElements];
};
template <int kColumns>
struct StageQueries<kColumns, false> {};
// kReads: with what reading the memory takes, beside what writing to it does.
template <int kColumns, bool kReads>
struct alignas(16) Stage : StageQueries<kColumns, kReads> {
  bf16 k[RowTileOf<kColumns>::kElements];
  bf16 value[RowTileOf<kColumns>::kElements];  // v, or the output's gradient
  TrianglesOf<bf16, kReads> triangles;
  float beta[kSteps];
};
template <int kColumns, bool kReads>
struct alignas(16) DecayedStage : Stage<kColumns, kReads> {
  float from_start[kSteps], to_end[kSteps];  // of Decays, and in one copy
};
constexpr std::size_t kDecayBytes = 2 * kSteps * sizeof(float);
static_assert(offsetof(Decays<bf16>, high) == kDecayBytes &&
              sizeof(DecayedStage<kWidth, true>) == sizeof(Stage<kWidth, true>) + kDecayBytes);
template <typename Rule, int kColumns = kWidth, bool kReads = true>
using StageOf = std::conditional_t<Rule::kDecay, DecayedStage<kColumns, kReads>, Stage<kColumns, kReads>>;

// What a warp stores on its way to global memory: its 16 values of 64 rows, steps or keys. Two lanes bring a row, so
// that its 32 bytes leave at once. The halves of every other four rows are swapped: the eight rows that are written at
// once, and the four that are read, then lie in different banks.
struct alignas(16) Patch {
  bf16 x[kSteps * 16];

  __device__ static int index(int row, int half) { return row * 16 + (half ^ row / 4 % 2) * 8; }
};
constexpr int kWarps = kWarpgroup / 32;

// What a block has in dynamic shared memory: the ring, then each warp's patches.
template <typename Rule>
constexpr std::size_t shared_bytes(int stages, int patches) {
  return stages * sizeof(StageOf<Rule>) + patches * kWarps * sizeof(Patch);
}
static_assert(kBlocksTogether * (shared_bytes<GatedDelta>(2, 2) + 2048) <= 227 * 1024);

// Calls function(constant) with the chunks that a block has in shared memory: two, 81 KB, where two blocks share a
// multiprocessor, three, 122 KB, where each has one to itself.
template <typename Function>
void with_stages(int blocks, Function&& function) {
  if (blocks > cuda_device_attribute(cudaDevAttrMultiProcessorCount))
    function(std::integral_constant<int, 2>{});
  else
    function(std::integral_constant<int, 3>{});
}

// A warpgroup's rows as they are in memory.
struct Rows {
  const bf16* data;
  std::int64_t stride;
};

// Queues this thread's copies of a chunk's rows: eight threads, or sixteen, bring a row.
template <int kColumns>
__device__ inline void copy_tile(bf16* tile, const Rows& rows, std::int64_t offset, int valid, int width, int thread) {
  constexpr int kRowThreads = kColumns / 8;
  const int column = thread % kRowThreads * 8, first = thread / kRowThreads, stride = static_cast<int>(rows.stride);
  const bf16* const from = rows.data + offset;
#pragma unroll
  for (int row = first; row < first + kSteps; row += kWarpgroup / kRowThreads) {
    const bool inside = row < valid && column < width;
    copy_async<16>(tile + RowTile::index(row, column), inside ? from + (row * stride + column) : rows.data, inside);
  }
}

// The copying warpgroup's work: a segment's chunks in the order of the walk, each when its slot is empty, of which the
// last kStages - 1 are on their way at once. `values` are rows of [B, T, H, D] with heads next to each other; null:
// none are brought.
template <typename Rule, bool kReverse, int kColumns, bool kReads, int kStages>
__device__ inline void bring_chunks(StageOf<Rule, kColumns, kReads>* ring, RingBarriers<kStages>& barriers,
                                    const Problem<bf16>& problem, const Rows& values, const Prepared<bf16>& prepared,
                                    int segment) {
  const auto at = problem.pair(blockIdx.x);
  const auto walked = problem.chunks_of(at, segment);
  const int chunks = walked.count, thread = threadIdx.x % kWarpgroup;
  const auto chunk_at = [&](int i) { return walked.first + (kReverse ? chunks - 1 - i : i); };
  const auto beta_of = [&](int i) {
    const int step = chunk_at(i) * kSteps + thread;
    return i < chunks && thread < kSteps && step < at.length ? problem.beta[problem.scalar(at, step)] : bf16{};
  };
  RingPlace<kStages> filling, filled;
  bf16 beta = beta_of(0);  // of the chunk that is published next: waited for, as the copies are, only then
  for (int i = 0; i < chunks + kStages - 2; ++i) {
    if (i < chunks) {
      StageOf<Rule, kColumns, kReads>& stage = ring[filling.slot];
      SharedBarrier& full = barriers.full[filling.slot];
      const int chunk = chunk_at(i), begin = chunk * kSteps, valid = min(kSteps, at.length - begin);
      if (i >= kStages) barriers.empty[filling.slot].wait(filling.parity ^ 1);
      if (thread == 0) {
        const std::int64_t at_chunk = problem.chunk_index(blockIdx.x, chunk);
        full.arrive_expecting(sizeof(stage.triangles) + (Rule::kDecay ? kDecayBytes : 0));
        full.copy(&stage.triangles, &prepared.triangles[at_chunk], sizeof(stage.triangles));
        if constexpr (Rule::kDecay) full.copy(stage.from_start, prepared.decays[at_chunk].from_start, kDecayBytes);
      }
      const std::int64_t row = static_cast<std::int64_t>(at.row) * problem.time + begin;
      const std::int64_t head = static_cast<std::int64_t>(at.head) * problem.width;
      copy_tile<kColumns>(stage.k, {problem.k, problem.row_stride}, row * problem.row_stride + head, valid,
                          problem.width, thread);
      if (kReads || values.data != nullptr)
        copy_tile<kColumns>(stage.value, values, row * values.stride + head, valid, problem.width, thread);
      if constexpr (kReads)
        copy_tile<kColumns>(stage.q, {problem.q, problem.row_stride}, row * problem.row_stride + head, valid,
                            problem.width, thread);
      filling.advance();
    }
    commit_copies();
    if (i < kStages - 2) continue;
    wait_for_groups<kStages - 2>();
    if (thread < kSteps) ring[filled.slot].beta[thread] = static_cast<float>(beta);
    publish_to_products();
    barriers.full[filled.slot].arrive();
    filled.advance();
    beta = beta_of(i + 3 - kStages);
  }
}

// One thread sets the barriers up for bring_chunks and the threads that read, each of which speaks for itself:
// racecheck does not see that a warp's first lane may speak for all after __syncwarp().
template <int kStages>
__device__ inline void initialize(RingBarriers<kStages>& barriers, int readers = kWarpgroup) {
  barriers.initialize(kWarpgroup + 1, readers);
}

// Where this warp's 16 values begin, as a number that the compiler knows to be a warp's: no product may be under way in
// a branch that it takes for one of lanes.
__device__ inline int first_value() { return __shfl_sync(~0u, static_cast<int>(threadIdx.x) / 32, 0) * 16; }

// A left operand over 64 columns as the sum of two bfloat16 matrices.
struct Planes {
  std::uint32_t high[4][4], low[4][4];
};

// Registers 2 i and 2 i + 1 of a product in planes.
__device__ inline void split(Planes& planes, int i, float a, float b) {
  const std::uint32_t high = pack_bf16(a, b);
  planes.high[i / 4][i % 4] = high;
  planes.low[i / 4][i % 4] = pack_bf16(a - unpack_low(high), b - unpack_high(high));
}

// Of a product's registers times a factor.
__device__ inline void to_planes(Planes& planes, const float (&x)[kRegisters], float factor) {
#pragma unroll
  for (int i = 0; i < kRegisters / 2; ++i) split(planes, i, x[2 * i] * factor, x[2 * i + 1] * factor);
}

// Of numbers of steps those of a thread's registers 4 i .. 4 i + 3: of the even and of the odd ones.
__device__ inline float2 of_steps(const float* numbers, int i) {
  return *reinterpret_cast<const float2*>(numbers + i * 8 + 2 * (lane_id() % 4));
}
// Values x steps times numbers of steps.
__device__ inline void scale_steps(float (&x)[kRegisters], const float* numbers) {
#pragma unroll
  for (int i = 0; i < kRegisters / 4; ++i) {
    const float2 f = of_steps(numbers, i);
    x[4 * i] *= f.x, x[4 * i + 1] *= f.y, x[4 * i + 2] *= f.x, x[4 * i + 3] *= f.y;
  }
}
// The same in bfloat16 to `scaled`.
__device__ inline void scale_steps(std::uint32_t (&scaled)[kBlocks][4], const std::uint32_t (&x)[kBlocks][4],
                                   const float* numbers) {
#pragma unroll
  for (int i = 0; i < kRegisters / 2; ++i) {
    const float2 f = of_steps(numbers, i / 2);
    const std::uint32_t pair = x[i / 4][i % 4];
    scaled[i / 4][i % 4] = pack_bf16(unpack_low(pair) * f.x, unpack_high(pair) * f.y);
  }
}
__device__ inline void scale_registers(float (&x)[kRegisters], float factor) {
#pragma unroll
  for (float& element : x) element *= factor;
}

// What values x steps are multiplied by where they are formed as a left operand: the steps' beta and a factor.
struct Weights {
  const float* beta;
  float factor;

  // Of registers 4 i and 4 i + 1, or the two after these.
  __device__ float2 apply(float even, float odd, int i) const {
    const float2 b = of_steps(beta, i);
    return {even * b.x * factor, odd * b.y * factor};
  }
};
// The same and the steps' decays.
struct DecayedWeights {
  const float *beta, *decay;
  float factor;

  __device__ float2 apply(float even, float odd, int i) const {
    const float2 b = of_steps(beta, i), d = of_steps(decay, i);
    return {even * (b.x * d.x * factor), odd * (b.y * d.y * factor)};
  }
};

// The planes of 16 steps.
template <typename WeightsOf>
__device__ inline void weigh(Planes& planes, const float (&x)[kRegisters], const WeightsOf& weights, int block) {
#pragma unroll
  for (int i = 4 * block; i < 4 * block + 4; ++i) {
    const float2 weighted = weights.apply(x[2 * i], x[2 * i + 1], i / 2);
    split(planes, i, weighted.x, weighted.y);
  }
}

__device__ inline void hold(Planes& planes) {
  hold_operands(planes.high);
  hold_operands(planes.low);
}

// A warp's left operand (its values x 16 steps) from rows of steps.
__device__ inline void load_transposed_rows(std::uint32_t (&a)[4], const bf16* tile, int block, int first_value) {
  const int lane = lane_id();
  load_matrices<true>(a, tile + RowTile::index(block * 16 + lane % 8 + lane / 16 * 8, first_value + lane / 8 % 2 * 8));
}

// Queues d (=, +=) kSign a (values x 64 keys from first_key on) rows^T (keys x steps).
template <int kSign = 1>
__device__ inline void multiply_keys(float (&d)[kRegisters], const std::uint32_t (&a)[4][4], const bf16* rows,
                                     bool accumulate, int first_key = 0) {
#pragma unroll
  for (int k = 0; k < kWidth / 16; ++k)
    multiply<kSteps, Major::kK, kSign>(d, a[k], RowTile::k_in_columns(rows, 0, first_key + 16 * k),
                                       accumulate || k > 0);
}
// Queues d += a (values x steps) rows (steps x 64 keys from first_key on).
__device__ inline void multiply_steps(float (&d)[kRegisters], const std::uint32_t (&a)[4][4], const bf16* rows,
                                      int first_key = 0) {
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k)
    multiply<kWidth, Major::kMN>(d, a[k], RowTile::k_in_rows(rows, 16 * k, first_key), true);
}
// The same of weighted x in two planes, which are formed between the products.
template <typename WeightsOf>
__device__ inline void multiply_steps(float (&d)[kRegisters], Planes& a, const float (&x)[kRegisters],
                                      const WeightsOf& weights, const bf16* rows) {
#pragma unroll
  for (int k = 0; k < kSteps / 16; ++k) {
    weigh(a, x, weights, k);
    start_products();
    multiply<kWidth, Major::kMN>(d, a.low[k], RowTile::k_in_rows(rows, 16 * k, 0), true);
  }
  multiply_steps(d, a.high, rows);
}
// Values x steps as products of 16 steps each. Registers of their own: the PTX manual orders products of one shape
// alone where they change the same registers.
struct StepBlocks {
  float x[kBlocks][8];
};
// The order in which blocks of steps are multiplied by a lower triangular matrix: first what most others need.
template <bool kTransposed>
__device__ constexpr int block_in_order(int k) {
  return kTransposed ? kBlocks - 1 - k : k;
}
// Queues d (=, +=) a (values x steps) M^T, or with kTransposed a M, for a lower triangular M (steps x steps); first of
// the k-th block of steps alone. What is above the diagonal is left out, block by block: it would be 0, but 0 times
// what is no number is not.
template <bool kTransposed>
__device__ inline void multiply_triangle_block(StepBlocks& d, const std::uint32_t (&a)[4][4], const bf16* triangle,
                                               int k, bool accumulate) {
  const int from = block_in_order<kTransposed>(k);
#pragma unroll
  for (int i = 0; i < kBlocks - k; ++i) {
    const int to = kTransposed ? from - i : from + i;
    if constexpr (kTransposed)
      multiply<16, Major::kMN>(d.x[to], a[from],
                               TriangleTile::k_in_rows(triangle, 0, Triangles<bf16>::block(from, to) / 16),
                               accumulate || k > 0);
    else
      multiply<16>(d.x[to], a[from], TriangleTile::k_in_columns(triangle, 0, Triangles<bf16>::block(to, from) / 16),
                   accumulate || k > 0);
  }
}
template <bool kTransposed>
__device__ inline void multiply_triangle(StepBlocks& d, const std::uint32_t (&a)[4][4], const bf16* triangle,
                                         bool accumulate) {
#pragma unroll
  for (int k = 0; k < kBlocks; ++k) multiply_triangle_block<kTransposed>(d, a, triangle, k, accumulate);
}
// Queues d = a M^T, or a M, of the low plane of weighted x, which is formed in two planes between the products. Before
// a block of steps is, form(block) makes its x.
template <bool kTransposed, typename Form>
__device__ inline void multiply_weighted(StepBlocks& d, Planes& a, const float (&x)[kRegisters], const Weights& weights,
                                         const bf16* triangle, const Form& form) {
#pragma unroll
  for (int k = 0; k < kBlocks; ++k) {
    form(block_in_order<kTransposed>(k));
    weigh(a, x, weights, block_in_order<kTransposed>(k));
    start_products();
    multiply_triangle_block<kTransposed>(d, a.low, triangle, k, false);
  }
}
// Queues d = a Z^T, or a Z, of -Z in two matrices and weighted x in two planes.
template <bool kTransposed, typename TrianglesOfStage, typename Form>
__device__ inline void multiply_solve(StepBlocks& d, Planes& a, const float (&x)[kRegisters], const Weights& weights,
                                      const TrianglesOfStage& triangles, const Form& form) {
  multiply_weighted<kTransposed>(d, a, x, weights, triangles.solve[0], form);
  multiply_triangle<kTransposed>(d, a.high, triangles.solve[1], true);
  multiply_triangle<kTransposed>(d, a.high, triangles.solve[0], true);
}

__device__ inline void hold(StepBlocks& d) {
#pragma unroll
  for (int block = 0; block < kBlocks; ++block) hold_registers(d.x[block]);
}
// x = factor x + d
__device__ inline void add(float (&x)[kRegisters], float factor, const StepBlocks& d) {
#pragma unroll
  for (int i = 0; i < kRegisters; ++i) x[i] = factor * x[i] + d.x[i / 8][i % 8];
}

// The same with a factor of each step.
__device__ inline void add(float (&x)[kRegisters], const float* factors, const StepBlocks& d) {
  scale_steps(x, factors);
  add(x, 1.0f, d);
}

// Values x steps, rounded to bfloat16.
__device__ inline void to_pairs(std::uint32_t (&pairs)[kBlocks][4], const float (&x)[kRegisters]) {
#pragma unroll
  for (int i = 0; i < kRegisters / 2; ++i) pairs[i / 4][i % 4] = pack_bf16(x[2 * i], x[2 * i + 1]);
}
// Puts values x 64 rows into a patch. The warp meets before another lane reads it, and before it is written again.
__device__ inline void put(Patch& patch, const std::uint32_t (&pairs)[4][4]) {
  const int lane = lane_id();
  bf16* const own = patch.x + Patch::index(lane % 8 + lane / 16 * 8, lane / 8 % 2);
#pragma unroll
  for (int block = 0; block < 4; ++block) store_matrices_transposed(own + block * 256, pairs[block]);
}

// Where a lane stores its pieces of rows of steps: from row lane / 2 on 16 bytes of each sixteenth.
class RowWriter {
 public:
  // `rows`: the head's of a chunk's first step.
  __device__ RowWriter(bf16* rows, int step_stride, int width, int first_value)
      : next_(rows + (lane_id() / 2 * step_stride + first_value + lane_id() % 2 * 8)),
        stride_(16 * step_stride),
        inside_(first_value + lane_id() % 2 * 8 < width) {}

  // Stores the first `valid` steps of a chunk.
  __device__ void store(const Patch& patch, int valid) const {
    const int lane = lane_id(), rows = inside_ ? valid - lane / 2 : 0;
    const auto* from = reinterpret_cast<const uint4*>(patch.x + Patch::index(lane / 2, lane % 2));
    uint4 pieces[4];
#pragma unroll
    for (int i = 0; i < 4; ++i) pieces[i] = from[32 * i];
    bf16* to = next_;
#pragma unroll
    for (int i = 0; i < 4; ++i, to += stride_)
      if (16 * i < rows) *reinterpret_cast<uint4*>(to) = pieces[i];
  }
  // Goes on at another chunk.
  __device__ void move(int chunks) { next_ += chunks * 4 * static_cast<std::int64_t>(stride_); }

 private:
  bf16* next_;
  int stride_;
  bool inside_;
};

// Stores 64 keys of a state (values x keys) in operand tiles (store_operand) to the first value's place in a chunk's: a
// lane half of the tiles' rows of every other key, where pairs of the upper and the lower eight values alternate.
__device__ inline void store_state(bf16* tiles, const Patch& patch, bool inside) {
  const int lane = lane_id(), at = lane % 2 * 4;
  const bf16* const upper = patch.x + Patch::index(lane / 2, 0) + at;
  const bf16* const lower = patch.x + Patch::index(lane / 2, 1) + at;
  auto* const to = reinterpret_cast<uint4*>(tiles) + lane;
  uint2 pairs[4][2];
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    pairs[i][0] = *reinterpret_cast<const uint2*>(upper + 256 * i);
    pairs[i][1] = *reinterpret_cast<const uint2*>(lower + 256 * i);
  }
  if (inside)
#pragma unroll
    for (int i = 0; i < 4; ++i) to[32 * i] = make_uint4(pairs[i][0].x, pairs[i][1].x, pairs[i][0].y, pairs[i][1].y);
}

}  // namespace warpgroup
}  // namespace engram::delta_rule
