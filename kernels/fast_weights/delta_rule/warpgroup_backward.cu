#include <cstdint>

#include "kernels/fast_weights/delta_rule/chunk_gradient.cuh"
#include "kernels/fast_weights/delta_rule/warpgroup_chain.cuh"

namespace engram::delta_rule {
namespace warpgroup {
namespace {

constexpr int kPatches = 1;

// Names and formulas: README.md, "Backward" and "With a decay". The gradient of the state, in units of scale, and dU^T
// then dY^T are in a thread's registers.
template <typename Rule, int kStages>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    backward_kernel(Problem<bf16> problem, const bf16* __restrict__ output_gradient, Prepared<bf16> prepared,
                    BackwardScratch<bf16> scratch) {
#ifdef ENGRAM_HAS_WGMMA
  extern __shared__ __align__(128) unsigned char bytes[];
  auto* ring = reinterpret_cast<StageOf<Rule>*>(bytes);
  __shared__ RingBarriers<kStages> barriers;
  if (threadIdx.x == 0) initialize(barriers);
  __syncthreads();
  const auto at = problem.pair(blockIdx.x);
  const int width = problem.width, step_stride = problem.heads * width;

  if (warpgroup_id() == 1) {
    shrink_registers<kCopyRegisters>();
    bring_chunks<Rule, true, kWidth, true>(ring, barriers, problem, {output_gradient, step_stride}, prepared, 0);
    return;
  }
  grow_registers<kComputeRegisters>();
  const int chunks = (at.length + kSteps - 1) / kSteps, own_value = first_value();
  if (chunks == 0) return;
  const float scale = problem.scale, inverse_scale = 1.0f / scale;
  Patch& patch = reinterpret_cast<Patch*>(ring + kStages)[own_value / 16];
  RowWriter errors(scratch.error_gradient + problem.contiguous(at, 0), step_stride, width, own_value);
  errors.move(chunks - 1);
  float state[kRegisters] = {}, x[kRegisters];
  StepBlocks product;
  Planes state_gradient, weighted;
  std::uint32_t d_output[kBlocks][4];
  [[maybe_unused]] std::uint32_t decayed_d_output[kBlocks][4];
  RingPlace<kStages> place;
  const auto begin_chunk = [&] {  // queues P^T dO
    barriers.full[place.slot].wait(place.parity);
    const StageOf<Rule>& stage = ring[place.slot];
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) load_transposed_rows(d_output[block], stage.value, block, own_value);
    start_products();
    multiply_triangle<true>(product, d_output, stage.triangles.attend, false);
    commit_products();
  };
  const auto store_errors = [&](int chunk) {
    std::uint32_t rounded[kBlocks][4];
    to_pairs(rounded, x);
    put(patch, rounded);
    __syncwarp();
    errors.store(patch, at.length - chunk * kSteps);
    errors.move(-1);
  };
  begin_chunk();
  for (int chunk = chunks - 1;; --chunk) {
    const StageOf<Rule>& stage = ring[place.slot];

    // dU = P^T dO + K dS', then dS' + scale Q^T dO; dS' is saved beside them. With a decay diag(l) K dS', and
    // g_last dS' + scale Q^T diag(g) dO.
    wait_for_products<1>();  // of none, but without it the compiler waits for all
    to_planes(state_gradient, state, scale);
    start_products();
    multiply_keys(x, state_gradient.low, stage.k, false);
    multiply_keys(x, state_gradient.high, stage.k, true);
    commit_products();
    if constexpr (Rule::kDecay) {
      scale_registers(state, stage.from_start[kSteps - 1]);
      scale_steps(decayed_d_output, d_output, stage.from_start);
      start_products();
      multiply_steps(state, decayed_d_output, stage.q);
    } else {
      multiply_steps(state, d_output, stage.q);
    }
    commit_products();
    __syncwarp();  // keeps the stores from being issued before the products
    put(patch, state_gradient.high);
    __syncwarp();
    store_state(
        scratch.state_gradient + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth> + own_value * kWidth,
        patch, own_value < width);
    wait_for_products<1>();
    hold_registers(x);
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
    hold_registers(state);
    hold(state_gradient);
    hold(weighted);
    hold_operands(d_output);
    if constexpr (Rule::kDecay) hold_operands(decayed_d_output);
    add(x, 1.0f, product);
    if (chunk == 0) break;

    // dX = D dY, dS = dS' + scale Q^T dO - K^T dX; dY is saved beside it. The next chunk's P^T dO follows.
    if constexpr (Rule::kDecay)
      multiply_steps(state, weighted, x, DecayedWeights{stage.beta, stage.from_start, -inverse_scale}, stage.k);
    else
      multiply_steps(state, weighted, x, Weights{stage.beta, -inverse_scale}, stage.k);
    commit_products();
    __syncwarp();  // keeps the stores from being issued before the products, or
    store_errors(chunk);
    __syncwarp();  // after them
    const int used = place.slot;
    place.advance();
    begin_chunk();
    wait_for_products<1>();
    barriers.empty[used].arrive();
    hold_registers(state);
    hold(weighted);
  }
  __syncwarp();
  store_errors(0);
#endif
}

}  // namespace
}  // namespace warpgroup

template <typename Rule>
void launch_warpgroup_backward(const Problem<bf16>& problem, const bf16* output_gradient,
                               const Prepared<bf16>& prepared, const BackwardScratch<bf16>& scratch,
                               cudaStream_t stream) {
  using namespace warpgroup;
  const int blocks = problem.batch * problem.heads;
  with_stages(blocks, [&](auto stages) {
    launch(backward_kernel<Rule, stages>, dim3(blocks), kThreads, shared_bytes<Rule>(stages, kPatches), stream,
           "delta rule: backward by a warpgroup", problem, output_gradient, prepared, scratch);
  });
}

#define ENGRAM_WARPGROUP_BACKWARD(Rule)                                                                   \
  template void launch_warpgroup_backward<Rule>(const Problem<bf16>&, const bf16*, const Prepared<bf16>&, \
                                                const BackwardScratch<bf16>&, cudaStream_t);
ENGRAM_WARPGROUP_BACKWARD(PlainDelta)
ENGRAM_WARPGROUP_BACKWARD(GatedDelta)
#undef ENGRAM_WARPGROUP_BACKWARD

}  // namespace engram::delta_rule
