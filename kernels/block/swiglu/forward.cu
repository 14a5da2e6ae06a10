#include <cstdint>
#include <string>

#include "kernels/block/swiglu/stage.cuh"
#include "kernels/common/architecture.h"

namespace engram {
namespace swiglu {
namespace {

constexpr int kWarpgroups = 3;  // that multiply; one more copies
constexpr int kThreads = (kWarpgroups + 1) * kWarpgroup;
[[maybe_unused]] constexpr int kCopyRegisters = 24, kRegisters = 160;

template <int kP>
struct Shared {
  static constexpr int kSlots = kP <= 112 ? 4 : 3;
  Stage<kP> ring[kSlots];
  bf16 x[kWarpgroups][RowTile<kP>::kElements];
};

// hidden = silu(gate) * up as the next product's left operand; the gate's columns stand before those of `up`.
[[maybe_unused]] __device__ inline void activate(std::uint32_t (&hidden)[4][4], const float (&gate_up)[kUnits]) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float h[8];
#pragma unroll
    for (int i = 0; i < 8; ++i) h[i] = silu(gate_up[8 * k + i]) * gate_up[kUnits / 2 + 8 * k + i];
    pack_operand(hidden[k], h);
  }
}

template <int kP>
__global__ void __launch_bounds__(kThreads, 1) forward_kernel(FusedSwiGlu input, bf16* __restrict__ y) {
#ifdef ENGRAM_HAS_WGMMA
  constexpr int kSlots = Shared<kP>::kSlots;
  extern __shared__ __align__(128) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kP>*>(bytes);
  __shared__ RingBarriers<kSlots> barriers;
  const int group = warpgroup_id(), stages = input.inner / kUnits;
  if (threadIdx.x == 0) barriers.initialize(1, 4 * kWarpgroups);  // a warp is one reader
  __syncthreads();

  if (group == kWarpgroups) {
    shrink_registers<kCopyRegisters>();
    if (threadIdx.x == kWarpgroups * kWarpgroup)
      bring_stages(shared.ring, barriers, static_cast<const Stage<kP>*>(input.weights), stages);
    return;
  }
  grow_registers<kRegisters>();
  const std::int64_t first_row = (std::int64_t{blockIdx.x} * kWarpgroups + group) * kRows;
  bf16* const x = shared.x[group];
  load_rows<kP>(x, static_cast<const bf16*>(input.x), first_row, input.rows, input.stride);
  wait_for_copies();
  publish_to_products();
  meet(1 + group, kWarpgroup);

  // The warpgroups issue products by turns, so that one's products run beside the others' silu.
  const int own_turn = 1 + kWarpgroups + group, next_turn = 1 + kWarpgroups + (group + 1) % kWarpgroups;
  if (group == kWarpgroups - 1) announce(next_turn, 2 * kWarpgroup);

  float out[kP / 2] = {}, gate_up[kUnits];
  std::uint32_t hidden[kUnits / 16][4];
  RingPlace<kSlots> at;
  int last_slot = 0;
  for (int s = 0; s <= stages; ++s) {
    if (s < stages) barriers.full[at.slot].wait(at.parity);
    meet(own_turn, 2 * kWarpgroup);
    if (s > 0) {
      start_products();
#pragma unroll
      for (int k = 0; k < kUnits / 16; ++k)
        multiply<kP>(out, hidden[k], DownTile<kP>::k_in_columns(shared.ring[last_slot].down, 0, 16 * k), true);
      commit_products();
      wait_for_products<0>();  // with the next ones under way as well, the registers would not do
      if (lane_id() == 0) barriers.empty[last_slot].arrive();
    }
    if (s == stages) break;
    start_products();
    multiply_gate_up<kP>(gate_up, x, shared.ring[at.slot]);
    commit_products();
    announce(next_turn, 2 * kWarpgroup);
    wait_for_products<0>();
    hold_registers(gate_up);
    activate(hidden, gate_up);
    last_slot = at.slot;
    at.advance();
  }
  if (group < kWarpgroups - 1) announce(next_turn, 2 * kWarpgroup);
  hold_registers(out);

  meet(1 + group, kWarpgroup);  // all have read x
  store_rows<kP>(y, x, out, first_row, input.rows, input.stride);
#endif
}

}  // namespace
}  // namespace swiglu

Support supports_fused_swiglu_sizes(int stride, int inner) {
  using swiglu::kUnits;
  const auto no = [](int value, const char* why) { return Support::no(std::to_string(value) + why); };
  if (stride > 128) return no(stride, " channels are more than 128");
  if (stride < 16 || stride % 16 != 0) return no(stride, " channels are not a multiple of 16");
  if (inner < kUnits || inner % kUnits != 0) return no(inner, " hidden units are not a multiple of 64");
  return {};
}

Support supports_fused_swiglu(int stride, int inner) {
  if (Support sizes = supports_fused_swiglu_sizes(stride, inner); !sizes) return sizes;
  if (Support device = supports_hopper(); !device) return device;
  if (!has_body(&swiglu::forward_kernel<64>)) return Support::no("this build has no code of it for Hopper");
  return {};
}

void fused_swiglu_forward(const FusedSwiGlu& input, void* y, cudaStream_t stream) {
  using namespace swiglu;
  check_shape(input.width, input.stride, input.inner);
  dispatch_channels(input.stride, [&](auto channels) {
    constexpr int kP = channels;
    launch(forward_kernel<kP>, blocks_of(input.rows, kWarpgroups * kRows), kThreads, sizeof(Shared<kP>), stream,
           "fused SwiGLU forward", input, static_cast<bf16*>(y));
  });
}

}  // namespace engram
