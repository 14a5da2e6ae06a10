#include <cstdint>

#include "kernels/fast_weights/delta_rule/warpgroup_wide.cuh"

namespace engram::delta_rule {
namespace warpgroup {
namespace {

// Names and formulas: README.md, "Forward" and "With a decay"; what kReads is, chunk_forward.cu. A block is a segment
// of one head of one row; without kReads there are two, the second walks the identity. S^T, X^T then E^T, and O^T are
// in a thread's registers.
template <typename Rule, bool kReads>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_forward_kernel(Problem<bf16> problem, Prepared<bf16> prepared, ForwardOutput<bf16> out, Joints joints) {
#ifdef ENGRAM_HAS_WGMMA
  extern __shared__ __align__(128) unsigned char bytes[];
  auto* ring = reinterpret_cast<WideStage<Rule, kReads>*>(bytes);
  __shared__ RingBarriers<kWideStages> barriers;
  const int segment = blockIdx.z, width = problem.width;
  const bool walks_identity = blockIdx.y == 1;
  if (walks_identity && segment == 0) return;  // its first state is zero
  if (threadIdx.x == 0) initialize(barriers, kWideGroups * kWarpgroup);
  __syncthreads();
  const auto at = problem.pair(blockIdx.x);
  const auto walked = problem.chunks_of(at, segment);

  if (warpgroup_id() == kWideGroups) {
    shrink_registers<kWideCopyRegisters>();
    bring_chunks<Rule, false, kWide, kReads>(
        ring, barriers, problem, {walks_identity ? nullptr : problem.v, problem.row_stride}, prepared, segment);
    if constexpr (kReads) {
      const int steps = problem.segments.chunks * kSteps, end = min(problem.time, (segment + 1) * steps);
      for (int t = max(at.length, segment * steps) + threadIdx.x % kWarpgroup / 32; t < end; t += kWarps)
        for (int column = 2 * lane_id(); column < width; column += 64)
          store_pair(out.output + problem.contiguous(at, t) + column, 0.0f, 0.0f);
    }
    return;
  }
  grow_registers<kWideComputeRegisters>();
  const int own_value = first_value();
  const bool inside = own_value < width;
  WideState state;
  float x[kRegisters], output[kRegisters] = {};
  StepBlocks product = {};
  Planes state_planes[kHalves], weighted;
  RingPlace<kWideStages> place;
  if (kReads && segment > 0) {
    load_joint(state, joints.ends + joint_offset<kWide>(problem, blockIdx.x, segment - 1), own_value, inside);
  } else {
#pragma unroll
    for (int i = 0; i < kHalves * kRegisters; ++i) {
      const int value = own_value + lane_id() / 4 + i / 2 % 2 * 8, key = i / 4 * 8 + lane_id() % 4 * 2 + i % 2;
      state[i / kRegisters][i % kRegisters] = !kReads && walks_identity && value == key ? 1.0f : 0.0f;
    }
  }
  Patch& patch = reinterpret_cast<Patch*>(ring + kWideStages)[kReads ? own_value / 16 : 0];
  const int first_step = walked.first * kSteps;
  RowWriter outputs(out.output + problem.contiguous(at, first_step), problem.heads * width, width, own_value);
  RowWriter errors(out.error + problem.contiguous(at, first_step), problem.heads * width, width, own_value);
  bf16* saved_state =
      out.state + problem.chunk_index(blockIdx.x, walked.first) * kStateElements<kWide> + own_value * kWide;

  for (int i = 0; i < walked.count; ++i) {
    const int valid = at.length - (walked.first + i) * kSteps;
#pragma unroll
    for (int half = 0; half < kHalves; ++half) to_planes(state_planes[half], state[half], 1.0f);
    barriers.full[place.slot].wait(place.parity);
    const WideStage<Rule, kReads>& stage = ring[place.slot];
    // x = diag(g) x + V, without a decay before the products of x are added to it.
    const auto add_values = [&](int block) {
      std::uint32_t values[4] = {};
      if (!walks_identity) load_transposed_rows(values, stage.value, block, own_value);
#pragma unroll
      for (int r = 0; r < 4; ++r) {
        float* const own = x + 8 * block + 2 * r;
        float2 kept = {};
        if constexpr (Rule::kDecay) {
          const float2 decay = of_steps(stage.from_start, 2 * block + r / 2);
          kept = {own[0] * decay.x, own[1] * decay.y};
        }
        own[0] = kept.x + unpack_low(values[r]);
        own[1] = kept.y + unpack_high(values[r]);
      }
    };

    // X = V - K S, with a decay -K S alone, and Q S; S is saved beside them.
    if constexpr (!Rule::kDecay)
#pragma unroll
      for (int block = 0; block < kBlocks; ++block) add_values(block);
    start_products();
    multiply_keys<-1>(x, state_planes, stage.k, !Rule::kDecay);
    if constexpr (kReads) {
      multiply_keys(output, state_planes[0].high, stage.q, false);
      multiply_keys(output, state_planes[1].high, stage.q, true, kWidth);
    }
    commit_products();
    if constexpr (kReads) {
      save_state(saved_state, patch, state_planes, inside);
      saved_state += kStateElements<kWide>;
    }
    wait_for_products<0>();
    hold_registers(x);
    hold_registers(output);
    hold(state_planes);

    // E = X - Z D X
    multiply_solve<false>(product, weighted, x, {stage.beta, 1.0f}, stage.triangles, [&](int block) {
      if constexpr (Rule::kDecay) add_values(block);
    });
    commit_products();
    if constexpr (Rule::kDecay)
#pragma unroll
      for (int half = 0; half < kHalves; ++half) scale_registers(state[half], stage.from_start[kSteps - 1]);
    wait_for_products<0>();
    hold(product);
    hold(weighted);
    add(x, 1.0f, product);

    // U = D E, S' = S + K^T U (with a decay g_last S + K^T diag(l) U), P U; E is saved beside them.
    const Weights write{stage.beta, 1.0f};
    if constexpr (Rule::kDecay)
      multiply_steps(state, weighted, x, DecayedWeights{stage.beta, stage.to_end, 1.0f}, stage.k);
    else
      multiply_steps(state, weighted, x, write, stage.k);
    if constexpr (kReads) {
      if constexpr (!Rule::kDecay) {
        multiply_triangle<false>(product, weighted.low, stage.triangles.attend, false);
        multiply_triangle<false>(product, weighted.high, stage.triangles.attend, true);
      }
      commit_products();
      save_rows(errors, patch, x, valid, 1);
      if constexpr (Rule::kDecay) {
        wait_for_products<0>();
        hold(state);
        hold(weighted);
        multiply_weighted<false>(product, weighted, x, write, stage.triangles.attend, [](int) {});
        multiply_triangle<false>(product, weighted.high, stage.triangles.attend, true);
        commit_products();
        scale_steps(output, stage.from_start);
      }
    } else {
      commit_products();
    }
    wait_for_products<0>();
    hold(state);
    hold(weighted);
    if constexpr (kReads) {
      hold(product);
      add(output, problem.scale, product);  // O = scale Q S + P U
    }
    barriers.empty[place.slot].arrive();
    place.advance();
    if constexpr (kReads) save_rows(outputs, patch, output, valid, 1);
  }
  if constexpr (!kReads)
    if (inside) {
      const std::int64_t joint = joint_offset<kWide>(problem, blockIdx.x, segment);
      if (walks_identity) {
        Accumulator tiles[kWide / 8];
#pragma unroll
        for (int i = 0; i < kWide / 8; ++i) tiles[i] = tile_of(state, i);
        store_transition<kWide>(joints, joint, tiles, own_value, 0);
      } else {
        store_joint(joints.ends + joint, state, own_value);
      }
    }
#endif
}

}  // namespace
}  // namespace warpgroup

template <typename Rule>
void launch_wide_forward(const Problem<bf16>& problem, const Prepared<bf16>& prepared, const ForwardOutput<bf16>& out,
                         const Joints& joints, cudaStream_t stream) {
  using namespace warpgroup;
  const int pairs = problem.batch * problem.heads, segments = problem.segments.count;
  if (segments > 1) {
    launch(wide_forward_kernel<Rule, false>, dim3(pairs, 2, segments - 1), kWideThreads, kWideBytes<Rule, false>,
           stream, "delta rule: ends of segments by warpgroups", problem, prepared, out, joints);
    launch_join<false, Rule, bf16, kWide>(problem, prepared.decays, joints, stream);
  }
  launch(wide_forward_kernel<Rule, true>, dim3(pairs, 1, segments), kWideThreads, kWideBytes<Rule, true>, stream,
         "delta rule: forward by warpgroups", problem, prepared, out, joints);
}

template void launch_wide_forward<PlainDelta>(const Problem<bf16>&, const Prepared<bf16>&, const ForwardOutput<bf16>&,
                                              const Joints&, cudaStream_t);
template void launch_wide_forward<GatedDelta>(const Problem<bf16>&, const Prepared<bf16>&, const ForwardOutput<bf16>&,
                                              const Joints&, cudaStream_t);

}  // namespace engram::delta_rule
