#include <cstdint>
#include <string>

#include "kernels/architecture.h"
#include "kernels/delta_rule/chain.h"
#include "kernels/delta_rule/warpgroup_chain.cuh"

namespace engram {
namespace delta_rule {
namespace warpgroup {
namespace {

// Names and formulas: README.md, "Forward". S^T, X^T then E^T, and O^T are in a thread's registers.
template <int kStages>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    forward_kernel(Problem<bf16> problem, const Triangles<bf16>* __restrict__ triangles, ForwardOutput<bf16> out) {
#ifdef ENGRAM_HAS_WGMMA
  extern __shared__ __align__(128) unsigned char bytes[];
  auto* ring = reinterpret_cast<Stage*>(bytes);
  __shared__ RingBarriers<kStages> barriers;
  if (threadIdx.x == 0) initialize(barriers);
  __syncthreads();
  const auto at = problem.pair(blockIdx.x);
  const int width = problem.width, step_stride = problem.heads * width;

  if (warpgroup_id() == 1) {
    shrink_registers<kCopyRegisters>();
    bring_chunks<false>(ring, barriers, problem, {problem.v, problem.row_stride}, triangles);
    for (int t = at.length + (threadIdx.x - kWarpgroup) / 32; t < problem.time; t += kWarpgroup / 32)
      for (int column = 2 * lane_id(); column < width; column += 64)
        store_pair(out.output + problem.contiguous(at, t) + column, 0.0f, 0.0f);
    return;
  }
  grow_registers<kComputeRegisters>();
  float state[kRegisters] = {}, x[kRegisters], output[kRegisters];
  StepBlocks product;
  StepPairs rounded_error, rounded_output;
  const auto store_rows = [&](bf16* to, int chunk, const StepPairs& pairs) {
    const int begin = chunk * kSteps;
    store_steps(to + problem.contiguous(at, begin), step_stride, pairs, at.length - begin, width);
  };
  Planes minus_state, weighted;
  to_planes(minus_state, state, -1.0f);
  const int chunks = (at.length + kSteps - 1) / kSteps;
  RingPlace<kStages> place;
  for (int chunk = 0; chunk < chunks; ++chunk, place.advance()) {
    const Stage& stage = ring[place.slot];
    barriers.full[place.slot].wait(place.parity);

    // X = V - K S; beside it Q S. S is saved, and the last chunk's O goes out.
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      std::uint32_t values[4];
      load_transposed_rows(values, stage.value, block);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        x[8 * block + 2 * i] = unpack_low(values[i]);
        x[8 * block + 2 * i + 1] = unpack_high(values[i]);
      }
    }
    start_products();
    multiply_keys(x, minus_state.low, stage.k, true);
    multiply_keys(x, minus_state.high, stage.k, true);
    commit_products();
    multiply_keys(output, minus_state.high, stage.q, false);
    commit_products();
    __syncwarp();  // keeps the stores from being issued before the products
    if (chunk > 0) store_rows(out.output, chunk - 1, rounded_output);
    store_state<true>(out.state + problem.chunk_index(blockIdx.x, chunk) * kStateElements<kWidth>, minus_state.high,
                      width);
    wait_for_products<1>();
    hold_registers(x);

    // E = X - Z D X
    weigh(weighted, x, stage.beta, 1.0f);
    start_products();
    multiply_solve<false>(product, weighted, stage.triangles);
    commit_products();
    wait_for_products<0>();
    hold(product);
    hold_registers(output);
    hold(minus_state);
    hold(weighted);
    add(x, 1.0f, product);

    // U = D E, S' = S + K^T U, O = scale Q S + P U; E is saved beside them.
    weigh(weighted, x, stage.beta, 1.0f);
    start_products();
    multiply_steps(state, weighted.low, stage.k);
    multiply_steps(state, weighted.high, stage.k);
    commit_products();
    multiply_triangle<false>(product, weighted.low, stage.triangles.attend, false);
    multiply_triangle<false>(product, weighted.high, stage.triangles.attend, true);
    commit_products();
    __syncwarp();  // keeps the stores from being issued before the products, or
    to_pairs(rounded_error, x);
    store_rows(out.error, chunk, rounded_error);
    __syncwarp();  // after them
    wait_for_products<1>();
    hold_registers(state);
    if (chunk + 1 < chunks)
      to_planes(minus_state, state, -1.0f);  // in a branch: the compiler would move it after the wait
    else
      minus_state = Planes{};
    wait_for_products<0>();
    __syncwarp();
    if (lane_id() == 0) barriers.empty[place.slot].arrive();
    hold(product);
    hold(weighted);
    add(output, -problem.scale, product);
    to_pairs(rounded_output, output);
  }
  if (chunks > 0) store_rows(out.output, chunks - 1, rounded_output);
#endif
}

}  // namespace
}  // namespace warpgroup

void launch_warpgroup_forward(const Problem<bf16>& problem, const Triangles<bf16>* triangles,
                              const ForwardOutput<bf16>& out, cudaStream_t stream) {
  using namespace warpgroup;
  const int blocks = problem.batch * problem.heads;
  with_stages(blocks, [&](auto stages) {
    launch(forward_kernel<stages>, dim3(blocks), kThreads, stages * sizeof(warpgroup::Stage), stream,
           "delta rule: forward by a warpgroup", problem, triangles, out);
  });
}

}  // namespace delta_rule

Support delta_rule_warpgroup_sizes(const DeltaRuleInput& input) {
  const int width = input.shape.width;
  if (input.write != FastWeightWrite::kDelta) return Support::no("the sum rule");
  if (input.log_decay_BTH != nullptr) return Support::no("a decay");
  if (input.dtype != Dtype::kBfloat16) return Support::no("float32");
  if (width > delta_rule::warpgroup::kWidth) return Support::no("head width " + std::to_string(width) + " is above 64");
  if (const int bytes = delta_rule::make_problem<bf16>(input).copy_bytes; bytes < 16)
    return Support::no("rows aligned to " + std::to_string(bytes) + " bytes, not 16");
  return {};
}

Support delta_rule_warpgroup_support(const DeltaRuleInput& input) {
  if (Support sizes = delta_rule_warpgroup_sizes(input); !sizes) return sizes;
  if (Support device = hopper_support(); !device) return device;
  static const bool compiled = has_body(&delta_rule::warpgroup::forward_kernel<2>);
  if (!compiled) return Support::no("this build has no code of it for Hopper");
  return {};
}

Support delta_rule_warpgroup_support(const DeltaRuleInput& input, const void* output_gradient_BTHD) {
  if (reinterpret_cast<std::uintptr_t>(output_gradient_BTHD) % 16 != 0)
    return Support::no("an output's gradient that is not aligned to 16 bytes");
  return delta_rule_warpgroup_support(input);
}

}  // namespace engram
