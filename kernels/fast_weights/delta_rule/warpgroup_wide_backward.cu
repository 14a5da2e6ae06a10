#include <cstdint>

#include "kernels/fast_weights/delta_rule/chunk_gradient.cuh"
#include "kernels/fast_weights/delta_rule/warpgroup_wide.cuh"

namespace engram::delta_rule {
namespace warpgroup {
namespace {

// Names and formulas: README.md, "Backward" and "With a decay"; what kFromZero is, chunk_backward.cu. The gradient of
// the state, in units of scale, and dU^T then dY^T are in a thread's registers.
template <typename Rule, bool kFromZero>
__global__ void __launch_bounds__(kWideThreads, 1)
    wide_backward_kernel(Problem<bf16> problem, const bf16* __restrict__ output_gradient, Prepared<bf16> prepared,
                         BackwardScratch<bf16> scratch, Joints joints) {
#ifdef ENGRAM_HAS_WGMMA
  extern __shared__ __align__(128) unsigned char bytes[];
  auto* ring = reinterpret_cast<WideStage<Rule, true>*>(bytes);
  __shared__ RingBarriers<kWideStages> barriers;
  if (threadIdx.x == 0) initialize(barriers, kWideGroups * kWarpgroup);
  __syncthreads();
  const auto at = problem.pair(blockIdx.x);
  const int width = problem.width, step_stride = problem.heads * width;
  const int segment = kFromZero ? blockIdx.z + 1 : blockIdx.z;
  const auto walked = problem.chunks_of(at, segment);

  if (warpgroup_id() == kWideGroups) {
    shrink_registers<kWideCopyRegisters>();
    bring_chunks<Rule, true, kWide, true>(ring, barriers, problem, {output_gradient, step_stride}, prepared, segment);
    return;
  }
  grow_registers<kWideComputeRegisters>();
  const int own_value = first_value();
  const bool inside = own_value < width;
  const float scale = problem.scale, inverse_scale = 1.0f / scale;
  const auto joint = [&](int of) { return joints.ends + joint_offset<kWide>(problem, blockIdx.x, of - 1); };
  WideState state;
  float x[kRegisters];
  StepBlocks product = {};
  Planes state_gradient[kHalves], weighted;
  std::uint32_t d_output[kBlocks][4];
  RingPlace<kWideStages> place;
  load_joint(state, joint(segment + 1), own_value, inside && !kFromZero && segment + 1 < problem.segments.count);
  Patch& patch = reinterpret_cast<Patch*>(ring + kWideStages)[own_value / 16];
  const int last = walked.first + walked.count - 1;
  RowWriter errors(scratch.error_gradient + problem.contiguous(at, 0), step_stride, width, own_value);
  errors.move(last);

  for (int chunk = last; chunk >= walked.first; --chunk) {
#pragma unroll
    for (int half = 0; half < kHalves; ++half) to_planes(state_gradient[half], state[half], scale);
    barriers.full[place.slot].wait(place.parity);
    const WideStage<Rule, true>& stage = ring[place.slot];

    // K dS', which is saved beside it.
    start_products();
    multiply_keys<1>(x, state_gradient, stage.k, false);
    commit_products();
    if constexpr (!kFromZero)
      save_state(
          scratch.state_gradient + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWide> + own_value * kWide,
          patch, state_gradient, inside);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) load_transposed_rows(d_output[block], stage.value, block, own_value);
    wait_for_products<0>();
    hold_registers(x);
    hold(state_gradient);

    // dU = P^T dO + K dS', with a decay P^T dO + diag(l) K dS'; dS' + scale Q^T dO, with a decay g_last dS' + scale
    // Q^T diag(g) dO.
    start_products();
    multiply_triangle<true>(product, d_output, stage.triangles.attend, false);
    commit_products();
    [[maybe_unused]] std::uint32_t decayed_d_output[kBlocks][4];
    if constexpr (Rule::kDecay) {
      scale_steps(decayed_d_output, d_output, stage.from_start);
#pragma unroll
      for (int half = 0; half < kHalves; ++half) scale_registers(state[half], stage.from_start[kSteps - 1]);
      start_products();
#pragma unroll
      for (int half = 0; half < kHalves; ++half) multiply_steps(state[half], decayed_d_output, stage.q, half * kWidth);
    } else {
#pragma unroll
      for (int half = 0; half < kHalves; ++half) multiply_steps(state[half], d_output, stage.q, half * kWidth);
    }
    commit_products();
    wait_for_products<1>();
    hold(product);
    if constexpr (Rule::kDecay)
      add(x, stage.to_end, product);
    else
      add(x, 1.0f, product);

    // dY = dU - Z^T D dU
    multiply_solve<true>(product, weighted, x, {stage.beta, 1.0f}, stage.triangles, [](int) {});
    commit_products();
    wait_for_products<0>();
    hold(product);
    hold(state);
    hold(weighted);
    hold_operands(d_output);
    if constexpr (Rule::kDecay) hold_operands(decayed_d_output);
    add(x, 1.0f, product);

    // dX = D dY, dS = dS' + scale Q^T dO - K^T dX; dY is saved beside it.
    if constexpr (Rule::kDecay)
      multiply_steps(state, weighted, x, DecayedWeights{stage.beta, stage.from_start, -inverse_scale}, stage.k);
    else
      multiply_steps(state, weighted, x, Weights{stage.beta, -inverse_scale}, stage.k);
    commit_products();
    if constexpr (!kFromZero) save_rows(errors, patch, x, at.length - chunk * kSteps, -1);
    wait_for_products<0>();
    hold(state);
    hold(weighted);
    barriers.empty[place.slot].arrive();
    place.advance();
  }
  if constexpr (kFromZero)
    if (inside) store_joint(joint(segment), state, own_value);
#endif
}

}  // namespace
}  // namespace warpgroup

template <typename Rule>
void launch_wide_backward(const Problem<bf16>& problem, const bf16* output_gradient, const Prepared<bf16>& prepared,
                          const BackwardScratch<bf16>& scratch, const Joints& joints, cudaStream_t stream) {
  using namespace warpgroup;
  const int pairs = problem.batch * problem.heads, segments = problem.segments.count;
  if (segments > 1) {
    launch(wide_backward_kernel<Rule, true>, dim3(pairs, 1, segments - 1), kWideThreads, kWideBytes<Rule, true>, stream,
           "delta rule: gradients at segments' starts by warpgroups", problem, output_gradient, prepared, scratch,
           joints);
    launch_join<true, Rule, bf16, kWide>(problem, prepared.decays, joints, stream);
  }
  launch(wide_backward_kernel<Rule, false>, dim3(pairs, 1, segments), kWideThreads, kWideBytes<Rule, true>, stream,
         "delta rule: backward by warpgroups", problem, output_gradient, prepared, scratch, joints);
}

template void launch_wide_backward<PlainDelta>(const Problem<bf16>&, const bf16*, const Prepared<bf16>&,
                                               const BackwardScratch<bf16>&, const Joints&, cudaStream_t);
template void launch_wide_backward<GatedDelta>(const Problem<bf16>&, const bf16*, const Prepared<bf16>&,
                                               const BackwardScratch<bf16>&, const Joints&, cudaStream_t);

}  // namespace engram::delta_rule
