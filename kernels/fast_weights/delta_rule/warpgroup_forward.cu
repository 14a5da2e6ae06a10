#include <cstdint>
#include <string>

#include "kernels/common/architecture.h"
#include "kernels/fast_weights/delta_rule/chain.h"
#include "kernels/fast_weights/delta_rule/warpgroup_chain.cuh"

namespace engram {
namespace delta_rule {
namespace warpgroup {
namespace {

constexpr int kPatches = 2;

// Names and formulas: README.md, "Forward" and "With a decay". S^T, X^T then E^T, and O^T are in a thread's registers.
template <typename Rule, int kStages>
__global__ void __launch_bounds__(kThreads, kBlocksTogether)
    forward_kernel(Problem<bf16> problem, Prepared<bf16> prepared, ForwardOutput<bf16> out) {
#ifdef ENGRAM_HAS_WGMMA
  extern __shared__ __align__(128) unsigned char bytes[];
  auto* ring = reinterpret_cast<StageOf<Rule>*>(bytes);
  __shared__ RingBarriers<kStages> barriers;
  if (threadIdx.x == 0) initialize(barriers);
  __syncthreads();
  const auto at = problem.pair(blockIdx.x);
  const int width = problem.width;

  if (warpgroup_id() == 1) {
    shrink_registers<kCopyRegisters>();
    bring_chunks<Rule, false, kWidth, true>(ring, barriers, problem, {problem.v, problem.row_stride}, prepared, 0);
    for (int t = at.length + (threadIdx.x - kWarpgroup) / 32; t < problem.time; t += kWarpgroup / 32)
      for (int column = 2 * lane_id(); column < width; column += 64)
        store_pair(out.output + problem.contiguous(at, t) + column, 0.0f, 0.0f);
    return;
  }
  grow_registers<kComputeRegisters>();
  const int chunks = (at.length + kSteps - 1) / kSteps, own_value = first_value();
  if (chunks == 0) return;
  Patch* const patches = reinterpret_cast<Patch*>(ring + kStages) + own_value / 16 * kPatches;
  Patch &rows_patch = patches[0], &state_patch = patches[1];
  RowWriter outputs(out.output + problem.contiguous(at, 0), problem.heads * width, width, own_value);
  RowWriter errors(out.error + problem.contiguous(at, 0), problem.heads * width, width, own_value);
  bf16* saved_state = out.state + problem.chunk_index(blockIdx.x, 0) * kStateElements<kWidth> + own_value * kWidth;
  float state[kRegisters] = {}, x[kRegisters], output[kRegisters] = {};
  StepBlocks product = {};
  std::uint32_t rounded[kBlocks][4];
  Planes state_planes, weighted;
  [[maybe_unused]] Planes decayed;                    // diag(l) U
  [[maybe_unused]] std::uint32_t values[kBlocks][4];  // V
  RingPlace<kStages> place;
  const auto add_values = [&](int block) {  // x = diag(g) x + V
    if constexpr (Rule::kDecay) {
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float2 decay = of_steps(ring[place.slot].from_start, 2 * block + i / 2);
        float* const own = x + 8 * block + 2 * i;
        own[0] = own[0] * decay.x + unpack_low(values[block][i]);
        own[1] = own[1] * decay.y + unpack_high(values[block][i]);
      }
    }
  };
  // The planes of S and X = V; with a decay V alone, since what is added has its factors. In this order: the compiler
  // moves nothing over the barrier's wait, but would move the planes behind a wait for products.
  const auto begin_chunk = [&] {
    to_planes(state_planes, state, 1.0f);
    barriers.full[place.slot].wait(place.parity);
#pragma unroll
    for (int block = 0; block < kBlocks; ++block) {
      std::uint32_t loaded[4];
      load_transposed_rows(loaded, ring[place.slot].value, block, own_value);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (Rule::kDecay) {
          values[block][i] = loaded[i];
        } else {
          x[8 * block + 2 * i] = unpack_low(loaded[i]);
          x[8 * block + 2 * i + 1] = unpack_high(loaded[i]);
        }
      }
    }
  };
  // O = scale Q S + P U
  const auto round_output = [&] {
    add(output, -problem.scale, product);
    to_pairs(rounded, output);
  };
  begin_chunk();
  for (int chunk = 0;; ++chunk) {
    const StageOf<Rule>& stage = ring[place.slot];

    // X = V - K S, with a decay -K S alone; the last chunk's O and S are stored beside it.
    start_products();
    multiply_keys<-1>(x, state_planes.low, stage.k, !Rule::kDecay);
    multiply_keys<-1>(x, state_planes.high, stage.k, true);
    commit_products();
    wait_for_products<1>();  // of none, but without it the compiler waits for all before P U is read
    __syncwarp();            // keeps the stores from being issued before the products
    round_output();
    put(rows_patch, rounded);
    put(state_patch, state_planes.high);
    __syncwarp();
    if (chunk > 0) {
      outputs.store(rows_patch, kSteps);
      outputs.move(1);
    }
    store_state(saved_state, state_patch, own_value < width);
    saved_state += kStateElements<kWidth>;
    wait_for_products<0>();
    hold_registers(x);
    hold_operands(state_planes.low);

    // E = X - Z D X; then -Q S, beside which U is formed, and with a decay g_last S.
    multiply_solve<false>(product, weighted, x, {stage.beta, 1.0f}, stage.triangles, add_values);
    commit_products();
    multiply_keys<-1>(output, state_planes.high, stage.q, false);
    commit_products();
    if constexpr (Rule::kDecay) scale_registers(state, stage.from_start[kSteps - 1]);
    wait_for_products<1>();
    hold(product);
    hold(weighted);
    add(x, 1.0f, product);

    // U = D E, S' = S + K^T U (with a decay g_last S + K^T diag(l) U), P U; E is saved beside them. While P U is under
    // way, the next chunk begins.
    const Weights write{stage.beta, 1.0f};
    const auto round_errors = [&] {
      __syncwarp();  // keeps the stores from being issued before the products, or
      to_pairs(rounded, x);
      put(rows_patch, rounded);
    };
    if constexpr (Rule::kDecay) {
      multiply_steps(state, decayed, x, DecayedWeights{stage.beta, stage.to_end, 1.0f}, stage.k);
      commit_products();
      round_errors();  // before U, whose planes can then take E's registers
      multiply_weighted<false>(product, weighted, x, write, stage.triangles.attend, [](int) {});
    } else {
      multiply_steps(state, weighted, x, write, stage.k);
      commit_products();
      multiply_triangle<false>(product, weighted.low, stage.triangles.attend, false);
    }
    multiply_triangle<false>(product, weighted.high, stage.triangles.attend, true);
    commit_products();
    if constexpr (!Rule::kDecay) round_errors();
    __syncwarp();
    errors.store(rows_patch, at.length - chunk * kSteps);
    errors.move(1);
    __syncwarp();  // after them
    wait_for_products<1>();
    hold_registers(state);
    hold_registers(output);
    hold_operands(state_planes.high);
    if constexpr (Rule::kDecay) {
      hold(decayed);
      scale_steps(output, stage.from_start);
    }
    if (chunk + 1 == chunks) break;
    const int used = place.slot;
    place.advance();
    begin_chunk();
    wait_for_products<0>();
    barriers.empty[used].arrive();
    hold(product);
    hold(weighted);
  }
  wait_for_products<0>();
  hold(product);
  hold(weighted);
  round_output();
  put(rows_patch, rounded);
  __syncwarp();
  outputs.store(rows_patch, at.length - (chunks - 1) * kSteps);
#endif
}

}  // namespace
}  // namespace warpgroup

template <typename Rule>
void launch_warpgroup_forward(const Problem<bf16>& problem, const Prepared<bf16>& prepared,
                              const ForwardOutput<bf16>& out, cudaStream_t stream) {
  using namespace warpgroup;
  const int blocks = problem.batch * problem.heads;
  with_stages(blocks, [&](auto stages) {
    launch(forward_kernel<Rule, stages>, dim3(blocks), kThreads, shared_bytes<Rule>(stages, kPatches), stream,
           "delta rule: forward by a warpgroup", problem, prepared, out);
  });
}

#define ENGRAM_WARPGROUP_FORWARD(Rule)                                                      \
  template void launch_warpgroup_forward<Rule>(const Problem<bf16>&, const Prepared<bf16>&, \
                                               const ForwardOutput<bf16>&, cudaStream_t);
ENGRAM_WARPGROUP_FORWARD(PlainDelta)
ENGRAM_WARPGROUP_FORWARD(GatedDelta)
#undef ENGRAM_WARPGROUP_FORWARD

}  // namespace delta_rule

Support supports_delta_rule_warpgroup_sizes(const DeltaRuleInput& input) {
  if (input.write != FastWeightWrite::kDelta) return Support::no("the sum rule");
  if (input.dtype != Dtype::kBfloat16) return Support::no("float32");
  if (const int count = delta_rule::Segments::of<bf16>(input.shape).count;
      count > 1 && input.shape.width <= delta_rule::warpgroup::kWidth)
    return Support::no("a sequence of narrow heads in " + std::to_string(count) + " segments");
  if (const int bytes = delta_rule::make_problem<bf16>(input).copy_bytes; bytes < 16)
    return Support::no("rows aligned to " + std::to_string(bytes) + " bytes, not 16");
  return {};
}

Support supports_delta_rule_warpgroup(const DeltaRuleInput& input) {
  if (Support sizes = supports_delta_rule_warpgroup_sizes(input); !sizes) return sizes;
  if (Support device = supports_hopper(); !device) return device;
  static const bool compiled = has_body(&delta_rule::warpgroup::forward_kernel<delta_rule::PlainDelta, 2>);
  if (!compiled) return Support::no("this build has no code of it for Hopper");
  return {};
}

Support supports_delta_rule_warpgroup(const DeltaRuleInput& input, const void* output_BTHD) {
  if (reinterpret_cast<std::uintptr_t>(output_BTHD) % 16 != 0)
    return Support::no("an output or a gradient of it that is not aligned to 16 bytes");
  return supports_delta_rule_warpgroup(input);
}

bool delta_rule_warpgroup_pays(const DeltaRuleInput& input) {
  // A wide chain is a block's, where slices are eight: with fewer the multiprocessors stand idle.
  constexpr std::int64_t kFewestWideChains = 64;
  const DeltaRuleShape& shape = input.shape;
  return shape.width <= delta_rule::warpgroup::kWidth ||
         std::int64_t{shape.batch} * shape.heads * delta_rule::Segments::of<bf16>(shape).count >= kFewestWideChains;
}

DeltaRuleChain chosen_delta_rule_chain(const DeltaRuleInput& input, const void* output_BTHD) {
  return delta_rule_warpgroup_pays(input) && supports_delta_rule_warpgroup(input, output_BTHD)
             ? DeltaRuleChain::kWarpgroup
             : DeltaRuleChain::kSlices;
}

}  // namespace engram
