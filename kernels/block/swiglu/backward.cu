#include <cstdint>

#include "kernels/block/swiglu/stage.cuh"

namespace engram {
namespace swiglu {
namespace {

constexpr int kWarpgroups = 2;  // that multiply; one more copies
constexpr int kThreads = (kWarpgroups + 1) * kWarpgroup;
[[maybe_unused]] constexpr int kCopyRegisters = 24, kRegisters = 240;

template <int kP>
struct Shared {
  static constexpr int kSlots = 3;
  Stage<kP> ring[kSlots];
  bf16 x[kWarpgroups][RowTile<kP>::kElements];
  bf16 d_y[kWarpgroups][RowTile<kP>::kElements];
};

template <int kP>
__global__ void __launch_bounds__(kThreads, 1) backward_kernel(FusedSwiGlu input, FusedSwiGluGradient gradient) {
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
  bf16 *const x = shared.x[group], *const d_y = shared.d_y[group];
  load_rows<kP>(x, static_cast<const bf16*>(input.x), first_row, input.rows, input.stride);
  load_rows<kP>(d_y, static_cast<const bf16*>(gradient.y), first_row, input.rows, input.stride);
  wait_for_copies();
  publish_to_products();
  meet(1 + group, kWarpgroup);

  const int own_turn = 1 + kWarpgroups + group, next_turn = 1 + kWarpgroups + (group + 1) % kWarpgroups;
  if (group == kWarpgroups - 1) announce(next_turn, 2 * kWarpgroup);

  float d_x[kP / 2] = {}, gate_up[kUnits], d_hidden[kUnits / 2];
  std::uint32_t d_gate[kUnits / 16][4], d_up[kUnits / 16][4];
  RingPlace<kSlots> at;
  int last_slot = 0;
  for (int s = 0; s <= stages; ++s) {
    const Stage<kP>& last = shared.ring[last_slot];
    if (s < stages) barriers.full[at.slot].wait(at.parity);
    meet(own_turn, 2 * kWarpgroup);
    if (s > 0) {
      start_products();
#pragma unroll
      for (int k = 0; k < kUnits / 16; ++k)
        multiply<kP, Major::kMN>(d_x, d_gate[k], GateUpTile<kP>::k_in_rows(last.gate_up, 16 * k, 0), true);
#pragma unroll
      for (int k = 0; k < kUnits / 16; ++k)
        multiply<kP, Major::kMN>(d_x, d_up[k], GateUpTile<kP>::k_in_rows(last.gate_up, kUnits + 16 * k, 0), true);
      commit_products();
    }
    if (s == stages) break;
    start_products();
    multiply_gate_up<kP>(gate_up, x, shared.ring[at.slot]);
    multiply_d_hidden<kP>(d_hidden, d_y, shared.ring[at.slot]);
    commit_products();
    announce(next_turn, 2 * kWarpgroup);
    wait_for_products<1>();
    if (s > 0 && lane_id() == 0) barriers.empty[last_slot].arrive();
    wait_for_products<0>();
    hold_registers(gate_up);
    hold_registers(d_hidden);

#pragma unroll
    for (int k = 0; k < kUnits / 16; ++k) {
      float d_g[8], d_u[8];
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const auto d = UnitGradient::of(gate_up[8 * k + i], gate_up[kUnits / 2 + 8 * k + i], d_hidden[8 * k + i]);
        d_g[i] = d.gate;
        d_u[i] = d.up;
      }
      pack_operand(d_gate[k], d_g);
      pack_operand(d_up[k], d_u);
    }
    last_slot = at.slot;
    at.advance();
  }
  if (group < kWarpgroups - 1) announce(next_turn, 2 * kWarpgroup);
  wait_for_products<0>();
  hold_registers(d_x);

  meet(1 + group, kWarpgroup);  // all have read x
  store_rows<kP>(static_cast<bf16*>(gradient.x), x, d_x, first_row, input.rows, input.stride);
#endif
}

}  // namespace
}  // namespace swiglu

void fused_swiglu_backward(const FusedSwiGlu& input, const FusedSwiGluGradient& gradient, cudaStream_t stream) {
  using namespace swiglu;
  check_shape(input.width, input.stride, input.inner);
  dispatch_channels(input.stride, [&](auto channels) {
    constexpr int kP = channels;
    launch(backward_kernel<kP>, blocks_of(input.rows, kWarpgroups * kRows), kThreads, sizeof(Shared<kP>), stream,
           "fused SwiGLU backward", input, gradient);
  });
}

}  // namespace engram
