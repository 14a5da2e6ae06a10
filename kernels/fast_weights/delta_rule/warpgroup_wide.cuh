// The chain of heads padded to 128 (README.md, "By one warpgroup"): two warpgroups multiply, each with 64 of the values
// and all keys of the state, in registers as two halves of 64 keys. A third one brings the chunks.
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/fast_weights/delta_rule/warpgroup_chain.cuh"

namespace engram::delta_rule::warpgroup {

constexpr int kWide = 128, kHalves = kWide / kWidth;
constexpr int kWideGroups = 2, kWideThreads = (kWideGroups + 1) * kWarpgroup;
constexpr int kWideStages = 3;
// All of a multiprocessor's registers.
[[maybe_unused]] constexpr int kWideCopyRegisters = 40, kWideComputeRegisters = 232;

template <typename Rule, bool kReads>
using WideStage = StageOf<Rule, kWide, kReads>;

// The ring, and where memory is read a patch of each warp that multiplies.
template <typename Rule, bool kReads>
constexpr std::size_t kWideBytes = kWideStages * sizeof(WideStage<Rule, kReads>) +
                                   (kReads ? kWideGroups * kWarps * sizeof(Patch) : 0);
static_assert(kWideBytes<GatedDelta, true> + 1024 <= 227 * 1024);

// A warp's values x keys.
using WideState = float[kHalves][kRegisters];

// The state's tile of the i-th 8 keys, in the layout of mma.sync's accumulators.
__device__ inline Accumulator tile_of(const WideState& state, int i) {
  const float* const x = state[i / 8] + i % 8 * 4;
  return {{x[0], x[1], x[2], x[3]}};
}

// Loads or stores a warp's state at a joint, where its values are inside; what is not loaded is zero.
__device__ inline void load_joint(WideState& state, const float* ends, int first_value, bool inside) {
#pragma unroll
  for (int i = 0; i < kWide / 8; ++i) {
    Accumulator tile = {};
    if (inside) load_tile(tile, ends + joint_tiles<kWide>(first_value, 8 * i));
#pragma unroll
    for (int e = 0; e < 4; ++e) state[i / 8][i % 8 * 4 + e] = tile.x[e];
  }
}
__device__ inline void store_joint(float* ends, const WideState& state, int first_value) {
#pragma unroll
  for (int i = 0; i < kWide / 8; ++i) store_tile(ends + joint_tiles<kWide>(first_value, 8 * i), tile_of(state, i));
}

// Stores the state as it is in `planes`, rounded, to a chunk's place; the patch is the warp's own again afterwards.
__device__ inline void save_state(bf16* tiles, Patch& patch, const Planes (&planes)[kHalves], bool inside) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) {
    __syncwarp();
    put(patch, planes[half].high);
    __syncwarp();
    store_state(tiles + half * kWidth * 16, patch, inside);
  }
  __syncwarp();
}
// Stores a chunk's rows of values x steps likewise.
__device__ inline void save_rows(RowWriter& rows, Patch& patch, const float (&x)[kRegisters], int valid,
                                 int direction) {
  std::uint32_t rounded[kBlocks][4];
  to_pairs(rounded, x);
  __syncwarp();
  put(patch, rounded);
  __syncwarp();
  rows.store(patch, valid);
  rows.move(direction);
  __syncwarp();
}

// Queues state += weighted x (values x steps) rows (steps x keys); the weighted planes stay.
template <typename WeightsOf>
__device__ inline void multiply_steps(WideState& state, Planes& weighted, const float (&x)[kRegisters],
                                      const WeightsOf& weights, const bf16* rows) {
  multiply_steps(state[0], weighted, x, weights, rows);
  multiply_steps(state[1], weighted.low, rows, kWidth);
  multiply_steps(state[1], weighted.high, rows, kWidth);
}
// Queues x (=, +=) kSign state (values x keys), in planes, rows^T (keys x steps).
template <int kSign>
__device__ inline void multiply_keys(float (&x)[kRegisters], const Planes (&state)[kHalves], const bf16* rows,
                                     bool accumulate) {
  multiply_keys<kSign>(x, state[0].low, rows, accumulate);
  multiply_keys<kSign>(x, state[1].low, rows, true, kWidth);
  multiply_keys<kSign>(x, state[0].high, rows, true);
  multiply_keys<kSign>(x, state[1].high, rows, true, kWidth);
}

__device__ inline void hold(WideState& state) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) hold_registers(state[half]);
}
__device__ inline void hold(Planes (&planes)[kHalves]) {
#pragma unroll
  for (int half = 0; half < kHalves; ++half) hold(planes[half]);
}

}  // namespace engram::delta_rule::warpgroup
