#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/chunk_pipeline.cuh"
#include "kernels/fast_weights/delta_rule/chunk_prepare.cuh"
#include "kernels/fast_weights/delta_rule/segments.cuh"
#include "kernels/fast_weights/delta_rule/warpgroup_chain.cuh"

namespace engram {
namespace delta_rule {
namespace {

// What the warps of a slice exchange, transposed: their parts of X, then -S and U; with a decay also U as it has
// decayed at the chunk's end.
template <typename T, bool kDecay>
struct DecayedUpdate {};
template <typename T>
struct DecayedUpdate<T, true> {
  uint4 decayed_update[kChunk<T> / 16][kSumPlanes<T>][32];
};
template <typename T, int kWidth, bool kReads>
struct HandedState {};
template <typename T, int kWidth>
struct HandedState<T, kWidth, true> {
  uint4 minus_state[kWidth / 16][kPlanes<T>][32];
};
// Without kReads the update alone, as it has decayed.
template <typename Rule, typename T, int kWidth, int kParts, bool kReads = true>
struct ForwardExchange : DecayedUpdate<T, Rule::kDecay && kReads>, HandedState<T, kWidth, kReads> {
  float4 part[kParts][kChunk<T> / 8][32];
  uint4 update[kChunk<T> / 16][kSumPlanes<T>][32];
};

// A walk that only writes to the memory has small stages: two blocks of two slices share a multiprocessor.
constexpr int kEndSlices = 2, kEndStages = 2, kEndThreads = 64 * kEndSlices + kProducerThreads;

// With kReads a segment's walk from its first state: outputs, and what the backward pass needs. Without, that from a
// zero state to the segment's end, and in as many more blocks the delta rule's walk of the identity, without values.
template <typename Rule, typename T, int kWidth, int kParts, int kStages, bool kReads>
__global__ void __launch_bounds__(kReads ? kMostThreads<kParts> : kEndThreads, kReads || sizeof(T) == 4 ? 1 : 2)
    forward_kernel(Problem<T> problem, Prepared<T> prepared, ForwardOutput<T> out, Joints joints) {
  using StageOf = Stage<Rule, T, kWidth, kReads>;
  using Walk = SliceWarp<T, kWidth, kParts>;
  constexpr int kSize = kChunk<T>, kBlocks = kSize / 16, kVector = kRowStride<kWidth>, kKeyBlocks = kWidth / 16;
  constexpr int kOwnBlocks = Walk::kOwnBlocks, kOwnKeys = Walk::kOwnKeys, kCount = kPlanes<T>, kSums = kSumPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto* stages = reinterpret_cast<StageOf*>(shared_memory);
  const auto at = problem.pair(blockIdx.x);
  const int value_blocks = kReads || !Rule::kDelta ? gridDim.y : gridDim.y / 2, segment = blockIdx.z;
  const bool walks_identity = static_cast<int>(blockIdx.y) >= value_blocks;
  if (walks_identity && segment == 0) return;  // its first state is zero
  const Walk walk = Walk::of(problem.width, blockIdx.y % value_blocks);
  const int step_stride = problem.heads * problem.width;
  auto& exchange = reinterpret_cast<ForwardExchange<Rule, T, kWidth, kParts, kReads>*>(
      shared_memory + kStages * sizeof(*stages))[walk.slice];

  union {
    struct {
      Accumulator state[2 * kOwnKeys];  // this warp's keys
      Accumulator x[2 * kBlocks];
      Accumulator output[2 * kOwnBlocks];  // this warp's steps
    } slice;
    ProducerRegisters producer;
  } own;
  auto& state = own.slice.state;
  auto& x = own.slice.x;
  auto& output = own.slice.output;
  if (walk.works) {
    const int tiles = joint_tiles<kWidth>(walk.first_value, walk.first_key);
    if (kReads && segment > 0) {
      const float* const first = joints.ends + joint_offset<kWidth>(problem, blockIdx.x, segment - 1) + tiles;
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i) load_tile(state[i], first + i * kOperandTile);
    } else {
      const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) {
          const int value = walk.first_value + g + e / 2 * 8, key = walk.first_key + i * 8 + 2 * t + e % 2;
          state[i].x[e] = !kReads && walks_identity && value == key ? 1.0f : 0.0f;
        }
    }
  }

  // Two transposed tiles of a block of 16 steps' values.
  const auto load_values = [&](Accumulator& left, Accumulator& right, const StageOf& stage, int block) {
    load_transposed(left, right, stage.value + block * 16 * kValueStride + walk.slice * 16, kValueStride);
  };

  // This warp's keys' part of X = V - K S (of the sum rule X is V), with a decay exp(c_i) times K S; the state is
  // handed over and saved.
  const auto read_state = [&](const StageOf& stage, int chunk) {
    if constexpr (Rule::kDelta) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        if (!Rule::kDecay && walk.part == 0 && !walks_identity)
          load_values(x[2 * i], x[2 * i + 1], stage, i);
        else
          x[2 * i] = x[2 * i + 1] = Accumulator{};
      }
    }
#pragma unroll
    for (int k = 0; k < kOwnKeys; ++k) {
      const int key = walk.first_key / 16 + k;
      FragmentA<kSums> minus_state;
      to_fragment(minus_state, state[2 * k], state[2 * k + 1]);
      negate(minus_state);
      if constexpr (kReads) {
        store_fragment(exchange.minus_state[key], minus_state);
        T* tiles = out.state + Walk::state_tiles(problem, chunk, walk.first_value, key);
        store_operand(tiles, state[2 * k]);
        store_operand(tiles + kOperandTile, state[2 * k + 1]);
      }
      if constexpr (Rule::kDelta) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
          FragmentB<kCount> right[2];
          load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
          multiply_add(x[2 * i], minus_state, right[0]);
          multiply_add(x[2 * i + 1], minus_state, right[1]);
        }
      }
    }
    if constexpr (Rule::kDelta && Rule::kDecay) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) scale_steps(x[i], stage.from_start + i * 8);
      if (walk.part == 0 && !walks_identity) {
#pragma unroll
        for (int i = 0; i < kBlocks; ++i) {
          Accumulator values[2];
          load_values(values[0], values[1], stage, i);
#pragma unroll
          for (int e = 0; e < 4; ++e) x[2 * i].x[e] += values[0].x[e], x[2 * i + 1].x[e] += values[1].x[e];
        }
      }
    }
    if constexpr (Rule::kDelta) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) store_accumulator(exchange.part[walk.part][i], x[i]);
    }
  };

  // X, then of this warp's steps E = X - Z D X, U = D E, and the first term of O = scale Q S + P U. E of the sum rule
  // is V.
  const auto solve_errors = [&](const StageOf& stage, int chunk) {
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    Accumulator error[2 * kOwnBlocks];
    if constexpr (Rule::kDelta) {
      walk.add_parts(x, exchange.part);
      walk.select_own(error, x);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (j > walk.own_block(kOwnBlocks - 1)) continue;
        FragmentA<kSums> weighted;
        weigh(weighted, x[2 * j], x[2 * j + 1], stage.beta + j * 16, 1.0f);
#pragma unroll
        for (int b = 0; b < kOwnBlocks; ++b) {
          if (j > walk.own_block(b)) continue;
          SolveOperand<T> z;
          z.template load<false>(stage.triangles, walk.own_block(b), j);
          multiply_add(error[2 * b], weighted, z.tile[0]);
          multiply_add(error[2 * b + 1], weighted, z.tile[1]);
        }
      }
    } else {
#pragma unroll
      for (int b = 0; b < kOwnBlocks; ++b) load_values(error[2 * b], error[2 * b + 1], stage, walk.own_block(b));
    }
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b) {
      const int i = walk.own_block(b);
      FragmentA<kSums> update;
      if constexpr (kReads || !Rule::kDecay) {
        weigh(update, error[2 * b], error[2 * b + 1], stage.beta + i * 16, 1.0f);
        store_fragment(exchange.update[i], update);
      }
      if constexpr (Rule::kDecay) {
        weigh_decayed(update, error[2 * b], error[2 * b + 1], stage.beta + i * 16, stage.to_end + i * 16, 1.0f);
        if constexpr (kReads)
          store_fragment(exchange.decayed_update[i], update);
        else
          store_fragment(exchange.update[i], update);
      }
      if constexpr (Rule::kDelta && kReads)
        walk.store_steps(out.error + problem.contiguous(at, begin), step_stride, error[2 * b], error[2 * b + 1], i,
                         valid);
    }
    if constexpr (kReads) {
#pragma unroll
      for (int i = 0; i < 2 * kOwnBlocks; ++i) output[i] = Accumulator{};
#pragma unroll
      for (int key = 0; key < kKeyBlocks; ++key) {
        FragmentA<kCount> minus_state;
        load_fragment(minus_state, exchange.minus_state[key]);
#pragma unroll
        for (int b = 0; b < kOwnBlocks; ++b) {
          FragmentB<kCount> right[2];
          load_b(right, stage.q + walk.own_block(b) * 16 * kVector + key * 16, kVector);
          multiply_add(output[2 * b], minus_state, right[0]);
          multiply_add(output[2 * b + 1], minus_state, right[1]);
        }
      }
#pragma unroll
      for (int i = 0; i < 2 * kOwnBlocks; ++i) {
#pragma unroll
        for (int e = 0; e < 4; ++e) output[i].x[e] *= -problem.scale;
        if constexpr (Rule::kDecay) scale_steps(output[i], stage.from_start + walk.own_block(i / 2) * 16 + i % 2 * 8);
      }
    }
  };

  // S' = S + K^T U for this warp's keys, each as it has decayed at the chunk's end, and O for its steps.
  const auto write_state = [&](const StageOf& stage, int chunk) {
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    if constexpr (Rule::kDecay) {
      const float kept = stage.from_start[kSize - 1];
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) state[i].x[e] *= kept;
    }
#pragma unroll
    for (int j = 0; j < kBlocks; ++j) {
      FragmentA<kSums> update;
      FragmentB<kCount> right[2];
      if constexpr (Rule::kDecay && kReads)
        load_fragment(update, exchange.decayed_update[j]);
      else
        load_fragment(update, exchange.update[j]);
#pragma unroll
      for (int k = 0; k < kOwnKeys; ++k) {
        load_b_transposed(right, stage.k + j * 16 * kVector + walk.first_key + k * 16, kVector);
        multiply_add(state[2 * k], update, right[0]);
        multiply_add(state[2 * k + 1], update, right[1]);
      }
      if constexpr (kReads) {
        if constexpr (Rule::kDecay) {
          if (j > walk.own_block(kOwnBlocks - 1)) continue;
          load_fragment(update, exchange.update[j]);
        }
#pragma unroll
        for (int b = 0; b < kOwnBlocks; ++b) {
          if (j > walk.own_block(b)) continue;
          load_b_block(right, stage.triangles.attend + Triangles<T>::block(walk.own_block(b), j));
          multiply_add(output[2 * b], update, right[0]);
          multiply_add(output[2 * b + 1], update, right[1]);
        }
      }
    }
    if constexpr (kReads) {
#pragma unroll
      for (int b = 0; b < kOwnBlocks; ++b)
        walk.store_steps(out.output + problem.contiguous(at, begin), step_stride, output[2 * b], output[2 * b + 1],
                         walk.own_block(b), valid);
    }
  };

  const ValueRows<T> values{problem.v, problem.row_stride, walks_identity ? 0 : problem.copy_bytes};
  for_each_chunk<false, kStages>(problem, values, prepared, stages, own.producer, walk, segment, read_state,
                                 solve_errors, write_state);

  if constexpr (kReads) {
    const int steps = problem.segments.chunks * kSize,
              column_end = min(problem.width, walk.block_value + 16 * walk.slices);
    const int begin = max(at.length, segment * steps), end = min(problem.time, (segment + 1) * steps);
    for (int t = begin + threadIdx.x / 32; t < end; t += blockDim.x / 32)
      for (int column = walk.block_value + lane_id(); column < column_end; column += 32)
        out.output[problem.contiguous(at, t) + column] = T(0.0f);
  } else if (walk.works) {
    const std::int64_t joint = joint_offset<kWidth>(problem, blockIdx.x, segment);
    if (walks_identity)
      store_transition<kWidth>(joints, joint, state, walk.first_value, walk.first_key);
    else
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i)
        store_tile(joints.ends + joint + joint_tiles<kWidth>(walk.first_value, walk.first_key) + i * kOperandTile,
                   state[i]);
  }
}

template <typename Rule, typename T, int kWidth>
void launch_ends(const Problem<T>& problem, const Prepared<T>& prepared, const Joints& joints, cudaStream_t stream) {
  const int tiles = (problem.width + 15) / 16, slices = std::min(tiles, kEndSlices);
  const int blocks = (tiles + slices - 1) / slices;
  const dim3 grid(problem.batch * problem.heads, Rule::kDelta ? 2 * blocks : blocks, problem.segments.count - 1);
  launch(
      forward_kernel<Rule, T, kWidth, 2, kEndStages, false>, grid, 64 * slices + kProducerThreads,
      kEndStages * sizeof(Stage<Rule, T, kWidth, false>) + slices * sizeof(ForwardExchange<Rule, T, kWidth, 2, false>),
      stream, "delta rule: ends of segments", problem, prepared, ForwardOutput<T>{}, joints);
}

template <typename Rule, typename T, int kWidth>
void launch_forward(DeltaRuleChain chain, const DeltaRuleInput& input, void* output, void* saved, cudaStream_t stream) {
  const auto layout = SavedLayout::of<T>(input.shape, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  T* base = static_cast<T*>(saved);
  auto* triangles = static_cast<Triangles<T>*>(saved);
  auto* decays = reinterpret_cast<Decays<T>*>(base + layout.decay);
  launch_prepare<Rule, T, kWidth>(problem, triangles, decays, stream);
  const Prepared<T> prepared{triangles, decays};
  const ForwardOutput<T> out{static_cast<T*>(output), base + layout.state, base + layout.error};
  const Joints joints = Joints::of(layout, base);
  if constexpr (kHasWarpgroupChain<Rule, T>)
    if (chain == DeltaRuleChain::kWarpgroup) {
      if constexpr (kWidth == 64)
        launch_warpgroup_forward<Rule>(problem, prepared, out, stream);
      else
        launch_wide_forward<Rule>(problem, prepared, out, joints, stream);
      return;
    }
  if (problem.segments.count > 1) {
    launch_ends<Rule, T, kWidth>(problem, prepared, joints, stream);
    launch_join<false, Rule, T, kWidth>(problem, decays, joints, stream);
  }
  auto shape = RecurrenceLaunch::of<Rule, T, kWidth>(problem, sizeof(ForwardExchange<Rule, T, kWidth, 2>));
  auto kernel = shape.stages > 1 ? forward_kernel<Rule, T, kWidth, 2, kMostStages<kWidth>, true>
                                 : forward_kernel<Rule, T, kWidth, 2, 1, true>;
  if constexpr (kSharesSlice<T, kWidth>)
    if (shape.template share_slice<Rule, T, kWidth>(sizeof(ForwardExchange<Rule, T, kWidth, 4>)))
      kernel = forward_kernel<Rule, T, kWidth, 4, 3, true>;
  launch(kernel, shape.grid, shape.threads, shape.bytes, stream, "delta rule: forward", problem, prepared, out, joints);
}

}  // namespace
}  // namespace delta_rule

int delta_rule_segments(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) { return delta_rule::Segments::of<decltype(element)>(shape).count; });
}

std::size_t delta_rule_saved_bytes(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    return delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width)).elements * sizeof(T);
  });
}

void delta_rule_forward_by(DeltaRuleChain chain, const DeltaRuleInput& input, void* output_BTHD, void* saved,
                           cudaStream_t stream) {
  delta_rule::check_input(input);
  if (chain == DeltaRuleChain::kWarpgroup) delta_rule::require(supports_delta_rule_warpgroup(input, output_BTHD));
  delta_rule::dispatch(input, [&](auto rule, auto element, auto width) {
    delta_rule::launch_forward<decltype(rule), decltype(element), width.value>(chain, input, output_BTHD, saved,
                                                                               stream);
  });
}

void delta_rule_forward(const DeltaRuleInput& input, void* output_BTHD, void* saved, cudaStream_t stream) {
  delta_rule_forward_by(chosen_delta_rule_chain(input, output_BTHD), input, output_BTHD, saved, stream);
}

}  // namespace engram
