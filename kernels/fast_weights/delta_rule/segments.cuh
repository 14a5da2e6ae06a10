// What joins the segments of a sequence (README.md, "In segments").
#pragma once

#include <cstddef>
#include <cstdint>

#include "kernels/fast_weights/delta_rule/chunk_layout.cuh"

namespace engram::delta_rule {

// For each pair of row and head and each of all segments but one, kWidth x kWidth floats. `ends` are transposed, values
// x keys, in tiles of 16 x 8 that a warp holds as accumulators, keys fastest. Forward: the states at the ends of all
// segments but the last, first of walks from a zero state, then of the sequence. Backward: the gradients of the states
// at the starts of all but the first, likewise. The delta rule's transitions M, which take a segment's first state S to
// M S at its end, are right operands (load_operand), of products with ends from the left: M^T for the forward, M for
// the backward pass.
struct Joints {
  float *ends, *transition, *adjoint;

  // The parts of the saved buffer.
  template <typename T>
  static Joints of(const SavedLayout& layout, T* saved) {
    auto* const first = reinterpret_cast<float*>(saved + layout.joints);
    const std::size_t size = layout.joint_elements * sizeof(T) / sizeof(float);
    return {first, first + size, first + 2 * size};
  }
};

// Where a pair's joint of the given number, 0 .. segments - 2, begins.
template <int kWidth, typename T>
__device__ std::int64_t joint_offset(const Problem<T>& problem, int pair, int joint) {
  return (static_cast<std::int64_t>(pair) * (problem.segments.count - 1) + joint) *
         static_cast<std::int64_t>(kStateElements<kWidth>);
}
// Of 16 values and 16 keys the place of the first of two tiles.
template <int kWidth>
__device__ int joint_tiles(int value, int key) {
  return (value / 16 * (kWidth / 8) + key / 8) * kOperandTile;
}

__device__ inline void load_tile(Accumulator& x, const float* tile) {
  const float4 own = reinterpret_cast<const float4*>(tile)[lane_id()];
  x = {own.x, own.y, own.z, own.w};
}
__device__ inline void store_tile(float* tile, const Accumulator& x) {
  reinterpret_cast<float4*>(tile)[lane_id()] = make_float4(x.x[0], x.x[1], x.x[2], x.x[3]);
}

// Stores the identity's walk to a segment's end, M^T, as right operands both ways. As accumulators two tiles of 8 keys
// are, half by half of the rows, operands with k along keys.
template <int kWidth, int kTiles>
__device__ void store_transition(const Joints& joints, std::int64_t joint, const Accumulator (&state)[kTiles], int row,
                                 int first_key) {
#pragma unroll
  for (int i = 0; i < kTiles; ++i)
    store_operand(joints.transition + joint + joint_tiles<kWidth>(row, first_key) + i * kOperandTile, state[i]);
#pragma unroll
  for (int i = 0; i < kTiles; i += 2)
#pragma unroll
    for (int half = 0; half < 2; ++half)
      store_tile(
          joints.adjoint + joint + joint_tiles<kWidth>(first_key + 8 * i, row) + half * kOperandTile,
          {{state[i].x[2 * half], state[i].x[2 * half + 1], state[i + 1].x[2 * half], state[i + 1].x[2 * half + 1]}});
}

// Turns the ends of walks from zero into those of the sequence, one segment after the other, from the first or, of
// gradients, from the last.
template <bool kReverse, typename Rule, typename T, int kWidth>
void launch_join(const Problem<T>& problem, const Decays<T>* decays, const Joints& joints, cudaStream_t stream);

}  // namespace engram::delta_rule
