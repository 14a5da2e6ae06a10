#include <cstddef>
#include <cstdint>

#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/chunk_gradient.cuh"
#include "kernels/fast_weights/delta_rule/segments.cuh"
#include "kernels/fast_weights/delta_rule/warpgroup_chain.cuh"

namespace engram {
namespace delta_rule {
namespace {

// What the warps of a slice exchange, transposed: their parts of dU, then -dX in units of scale.
template <typename T, int kParts>
struct BackwardExchange {
  float4 part[kParts][kChunk<T> / 8][32];
  uint4 update[kChunk<T> / 16][kSumPlanes<T>][32];
};

// A segment's recurrence, from its last chunk to its first. State gradients are held in units of `scale`. With
// kFromZero of a segment but the first, from a zero gradient to that of the segment's first state.
template <typename Rule, typename T, int kWidth, int kParts, int kStages, bool kFromZero>
__global__ void __launch_bounds__(kMostThreads<kParts>)
    backward_recurrence_kernel(Problem<T> problem, BackwardRows<T> rows, Prepared<T> prepared,
                               BackwardScratch<T> scratch, Joints joints) {
  using StageOf = Stage<Rule, T, kWidth>;
  using Walk = SliceWarp<T, kWidth, kParts>;
  constexpr int kSize = kChunk<T>, kBlocks = kSize / 16, kVector = kRowStride<kWidth>;
  constexpr int kOwnBlocks = Walk::kOwnBlocks, kOwnKeys = Walk::kOwnKeys, kCount = kPlanes<T>, kSums = kSumPlanes<T>;
  extern __shared__ __align__(16) unsigned char shared_memory[];
  auto* stages = reinterpret_cast<StageOf*>(shared_memory);
  const auto at = problem.pair(blockIdx.x);
  const Walk walk = Walk::of(problem.width, blockIdx.y);
  const int segment = kFromZero ? blockIdx.z + 1 : blockIdx.z;
  const int step_stride = problem.heads * problem.width;
  const float scale = problem.scale, inverse_scale = 1.0f / problem.scale;
  auto& exchange =
      reinterpret_cast<BackwardExchange<T, kParts>*>(shared_memory + kStages * sizeof(*stages))[walk.slice];

  union {
    struct {
      Accumulator state[2 * kOwnKeys];  // the gradient, this warp's keys
      Accumulator x[2 * kBlocks];
    } slice;
    ProducerRegisters producer;
  } own;
  auto& state = own.slice.state;
  auto& x = own.slice.x;
  // Of the gradient at the start of `of`, this warp's tiles.
  const auto joint = [&](int of) {
    return joints.ends + joint_offset<kWidth>(problem, blockIdx.x, of - 1) +
           joint_tiles<kWidth>(walk.first_value, walk.first_key);
  };
  if (walk.works) {
    const bool from_zero = kFromZero || segment + 1 == problem.segments.count;
#pragma unroll
    for (int i = 0; i < 2 * kOwnKeys; ++i) {
      if (from_zero)
        state[i] = Accumulator{};
      else
        load_tile(state[i], joint(segment + 1) + i * kOperandTile);
    }
  }
  const auto load_output_gradient = [&](FragmentA<kCount>& d_output, const StageOf& stage, int i) {
    load_a_transposed(d_output, stage.value + i * 16 * kValueStride + walk.slice * 16, kValueStride);
  };

  // This warp's part of dU = P^T dO + K dS', with a decay exp(c_last - c_i) times the second term: its steps' of the
  // first term, its keys' of the second; dS' is kept.
  const auto read_state = [&](const StageOf& stage, int chunk) {
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) x[i] = Accumulator{};
#pragma unroll
    for (int k = 0; k < kOwnKeys; ++k) {
      const int key = walk.first_key / 16 + k;
      T* tiles = scratch.state_gradient + Walk::state_tiles(problem, chunk, walk.first_value, key);
      Accumulator scaled[2];
#pragma unroll
      for (int half = 0; half < 2; ++half) {
#pragma unroll
        for (int e = 0; e < 4; ++e) scaled[half].x[e] = state[2 * k + half].x[e] * scale;
        if constexpr (!kFromZero) store_operand(tiles + half * kOperandTile, scaled[half]);
      }
      FragmentA<kSums> state_gradient;
      to_fragment(state_gradient, scaled[0], scaled[1]);
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentB<kCount> right[2];
        load_b(right, stage.k + i * 16 * kVector + key * 16, kVector);
        multiply_add(x[2 * i], state_gradient, right[0]);
        multiply_add(x[2 * i + 1], state_gradient, right[1]);
      }
    }
    if constexpr (Rule::kDecay) {
#pragma unroll
      for (int i = 0; i < 2 * kBlocks; ++i) scale_steps(x[i], stage.to_end + i * 8);
    }
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b) {
      const int i = walk.own_block(b);
      FragmentA<kCount> d_output;
      load_output_gradient(d_output, stage, i);
#pragma unroll
      for (int j = 0; j < kBlocks; ++j) {
        if (j > i) continue;
        FragmentB<kCount> right[2];
        load_b_block_transposed(right, stage.triangles.attend + Triangles<T>::block(i, j));
        multiply_add(x[2 * j], d_output, right[0]);
        multiply_add(x[2 * j + 1], d_output, right[1]);
      }
    }
#pragma unroll
    for (int i = 0; i < 2 * kBlocks; ++i) store_accumulator(exchange.part[walk.part][i], x[i]);
  };

  // dU, then of this warp's steps dY = dU - Z^T D dU, which is kept, and dX = D dY; of its keys dS' + scale Q^T dO,
  // with a decay that of the chunk times the first and exp(c_i) times the second term. dY of the sum rule is dU.
  const auto solve_errors = [&](const StageOf& stage, int chunk) {
    const int begin = chunk * kSize, valid = min(kSize, at.length - begin);
    walk.add_parts(x, exchange.part);
    Accumulator d_error[2 * kOwnBlocks];
    walk.select_own(d_error, x);
    if constexpr (Rule::kDelta) {
#pragma unroll
      for (int i = kBlocks - 1; i >= 0; --i) {
        if (i < walk.own_block(0)) continue;
        FragmentA<kSums> weighted;
        weigh(weighted, x[2 * i], x[2 * i + 1], stage.beta + i * 16, 1.0f);
#pragma unroll
        for (int b = 0; b < kOwnBlocks; ++b) {
          if (i < walk.own_block(b)) continue;
          SolveOperand<T> z;
          z.template load<true>(stage.triangles, i, walk.own_block(b));
          multiply_add(d_error[2 * b], weighted, z.tile[0]);
          multiply_add(d_error[2 * b + 1], weighted, z.tile[1]);
        }
      }
    }
#pragma unroll
    for (int b = 0; b < kOwnBlocks; ++b) {
      const int j = walk.own_block(b);
      if constexpr (Rule::kDelta) {
        FragmentA<kSums> update;
        if constexpr (Rule::kDecay)
          weigh_decayed(update, d_error[2 * b], d_error[2 * b + 1], stage.beta + j * 16, stage.from_start + j * 16,
                        -inverse_scale);
        else
          weigh(update, d_error[2 * b], d_error[2 * b + 1], stage.beta + j * 16, -inverse_scale);
        store_fragment(exchange.update[j], update);
      }
      if constexpr (!kFromZero)
        walk.store_steps(scratch.error_gradient + problem.contiguous(at, begin), step_stride, d_error[2 * b],
                         d_error[2 * b + 1], j, valid);
    }
    if constexpr (Rule::kDecay) {
      const float kept = stage.from_start[kSize - 1];
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i)
#pragma unroll
        for (int e = 0; e < 4; ++e) state[i].x[e] *= kept;
    }
#pragma unroll
    for (int i = 0; i < kBlocks; ++i) {
      FragmentA<kCount> d_output;
      load_output_gradient(d_output, stage, i);
      if constexpr (Rule::kDecay) scale_columns(d_output, stage.from_start + i * 16);
#pragma unroll
      for (int k = 0; k < kOwnKeys; ++k) {
        FragmentB<kCount> right[2];
        load_b_transposed(right, stage.q + i * 16 * kVector + walk.first_key + k * 16, kVector);
        multiply_add(state[2 * k], d_output, right[0]);
        multiply_add(state[2 * k + 1], d_output, right[1]);
      }
    }
  };

  // dS = dS' + scale Q^T dO - K^T dX, its last term (with a decay, exp(c_i) times dX), for this warp's keys. The sum
  // rule has none.
  const auto write_state = [&](const StageOf& stage, int) {
    if constexpr (Rule::kDelta) {
#pragma unroll
      for (int i = 0; i < kBlocks; ++i) {
        FragmentA<kSums> update;
        load_fragment(update, exchange.update[i]);
#pragma unroll
        for (int k = 0; k < kOwnKeys; ++k) {
          FragmentB<kCount> right[2];
          load_b_transposed(right, stage.k + i * 16 * kVector + walk.first_key + k * 16, kVector);
          multiply_add(state[2 * k], update, right[0]);
          multiply_add(state[2 * k + 1], update, right[1]);
        }
      }
    }
  };

  const ValueRows<T> values{rows.output_gradient, step_stride, rows.copy_bytes};
  for_each_chunk<true, kStages>(problem, values, prepared, stages, own.producer, walk, segment, read_state,
                                solve_errors, write_state);
  if constexpr (kFromZero)
    if (walk.works)
#pragma unroll
      for (int i = 0; i < 2 * kOwnKeys; ++i) store_tile(joint(segment) + i * kOperandTile, state[i]);
}

template <typename Rule, typename T, int kWidth, bool kFromZero>
void launch_recurrence(const Problem<T>& problem, const BackwardRows<T>& rows, const Prepared<T>& prepared,
                       const BackwardScratch<T>& scratch, const Joints& joints, cudaStream_t stream) {
  auto shape = RecurrenceLaunch::of<Rule, T, kWidth>(problem, sizeof(BackwardExchange<T, 2>));
  auto kernel = shape.stages > 1 ? backward_recurrence_kernel<Rule, T, kWidth, 2, kMostStages<kWidth>, kFromZero>
                                 : backward_recurrence_kernel<Rule, T, kWidth, 2, 1, kFromZero>;
  if constexpr (kSharesSlice<T, kWidth>)
    if (shape.template share_slice<Rule, T, kWidth>(sizeof(BackwardExchange<T, 4>)))
      kernel = backward_recurrence_kernel<Rule, T, kWidth, 4, 3, kFromZero>;
  if constexpr (kFromZero) --shape.grid.z;
  launch(kernel, shape.grid, shape.threads, shape.bytes, stream, "delta rule: backward recurrence", problem, rows,
         prepared, scratch, joints);
}

template <typename Rule, typename T, int kWidth>
void launch_backward(DeltaRuleChain chain, const DeltaRuleInput& input, const void* saved, const void* output_gradient,
                     const DeltaRuleInputGradient& input_gradient, void* memory, cudaStream_t stream) {
  const DeltaRuleShape& s = input.shape;
  const auto layout = SavedLayout::of<T>(s, kWidth);
  const Problem<T> problem = make_problem<T>(input);
  const T* base = static_cast<const T*>(saved);
  const std::int64_t step_stride = std::int64_t{s.heads} * s.width;
  const BackwardRows<T> rows{static_cast<const T*>(output_gradient),
                             copy_bytes<T>({output_gradient}, step_stride, s.width),
                             copy_bytes<T>({saved, memory}, step_stride, s.width)};
  T* state_gradient = static_cast<T*>(memory);
  const BackwardScratch<T> scratch{state_gradient, state_gradient + (layout.error - layout.state)};
  const Prepared<T> prepared{static_cast<const Triangles<T>*>(saved),
                             reinterpret_cast<const Decays<T>*>(base + layout.decay)};
  auto joints = Joints::of(layout, const_cast<T*>(base));
  joints.ends = reinterpret_cast<float*>(state_gradient + (layout.decay - layout.state));
  const bool by_warpgroup = kHasWarpgroupChain<Rule, T> && chain == DeltaRuleChain::kWarpgroup;
  if constexpr (kHasWarpgroupChain<Rule, T>)
    if (by_warpgroup) {
      if constexpr (kWidth == 64)
        launch_warpgroup_backward<Rule>(problem, rows.output_gradient, prepared, scratch, stream);
      else
        launch_wide_backward<Rule>(problem, rows.output_gradient, prepared, scratch, joints, stream);
    }
  if (!by_warpgroup) {
    if (problem.segments.count > 1) {
      launch_recurrence<Rule, T, kWidth, true>(problem, rows, prepared, scratch, joints, stream);
      launch_join<true, Rule, T, kWidth>(problem, prepared.decays, joints, stream);
    }
    launch_recurrence<Rule, T, kWidth, false>(problem, rows, prepared, scratch, joints, stream);
  }
  launch_gradients<Rule, T, kWidth>(problem, rows, {base + layout.state, base + layout.error, prepared.decays}, scratch,
                                    input_gradient, stream);
}

}  // namespace
}  // namespace delta_rule

std::size_t delta_rule_backward_scratch_bytes(const DeltaRuleShape& shape, Dtype dtype) {
  delta_rule::check_shape(shape);
  return dispatch_dtype(dtype, [&](auto element) {
    using T = decltype(element);
    const auto layout = delta_rule::SavedLayout::of<T>(shape, delta_rule::padded_width(shape.width));
    return (layout.decay - layout.state + layout.joint_elements) * sizeof(T);
  });
}

void delta_rule_backward_by(DeltaRuleChain chain, const DeltaRuleInput& input, const void* saved,
                            const void* output_gradient_BTHD, const DeltaRuleInputGradient& input_gradient,
                            void* scratch, cudaStream_t stream) {
  delta_rule::check_input(input);
  if (chain == DeltaRuleChain::kWarpgroup)
    delta_rule::require(supports_delta_rule_warpgroup(input, output_gradient_BTHD));
  delta_rule::dispatch(input, [&](auto rule, auto element, auto width) {
    delta_rule::launch_backward<decltype(rule), decltype(element), width.value>(
        chain, input, saved, output_gradient_BTHD, input_gradient, scratch, stream);
  });
}

void delta_rule_backward(const DeltaRuleInput& input, const void* saved, const void* output_gradient_BTHD,
                         const DeltaRuleInputGradient& input_gradient, void* scratch, cudaStream_t stream) {
  delta_rule_backward_by(chosen_delta_rule_chain(input, output_gradient_BTHD), input, saved, output_gradient_BTHD,
                         input_gradient, scratch, stream);
}

}  // namespace engram
