// What the forward and the backward kernel share. A block keeps some rows in shared memory, 64 a warpgroup, while the
// weights pass by in stages of 64 hidden units: one thread copies them, the warpgroups multiply (README.md).
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "kernels/block/row_vector.cuh"  // silu
#include "kernels/block/swiglu/swiglu.h"
#include "kernels/common/launch.cuh"
#include "kernels/common/wgmma.cuh"

namespace engram::swiglu {

constexpr int kUnits = 64;  // hidden units of a stage
constexpr int kRows = 64;   // of a warpgroup
constexpr int kTilePad = 8;

template <int kP>
using RowTile = BlockTile<kRows, kP, kTilePad>;
template <int kP>
using GateUpTile = BlockTile<2 * kUnits, kP, kTilePad>;  // rows: the gate's units, then those that it multiplies
template <int kP>
using DownTile = BlockTile<kP, kUnits, kTilePad>;

// One stage of the weights, in global and in shared memory.
template <int kP>
struct alignas(16) Stage {
  bf16 gate_up[GateUpTile<kP>::kElements];
  bf16 down[DownTile<kP>::kElements];
};

// One thread copies all stages.
template <int kP, int kSlots>
__device__ inline void bring_stages(Stage<kP>* ring, RingBarriers<kSlots>& barriers, const Stage<kP>* weights,
                                    int stages) {
  RingPlace<kSlots> at;
  for (int s = 0; s < stages; ++s, at.advance()) {
    if (s >= kSlots) barriers.empty[at.slot].wait(at.parity ^ 1);
    barriers.full[at.slot].arrive_expecting(sizeof(Stage<kP>));
    barriers.full[at.slot].copy(&ring[at.slot], &weights[s], sizeof(Stage<kP>));
  }
}

// A warp's 16 rows of the warpgroup's tile in pieces of eight channels: function(row of the tile, channel). In one call
// of all lanes they have eight rows of four pieces: 64 bytes of each row, whole blocks of the tile.
template <int kP, class Function>
__device__ inline void for_each_piece(Function function) {
  const int first = threadIdx.x % kWarpgroup / 32 * 16 + lane_id() % 8;
#pragma unroll 1  // spares registers
  for (int half = 0; half < 2; ++half)
#pragma unroll
    for (int piece = 0; piece < kP / 8; piece += 4)
      if (const int channel = (piece + lane_id() / 8) * 8; channel < kP) function(first + 8 * half, channel);
}

// Queues copies of rows x[first_row ..][stride] to the tile; zeros after the last row and the last channel.
template <int kP>
__device__ inline void load_rows(bf16* tile, const bf16* x, std::int64_t first_row, std::int64_t rows, int stride) {
  const bf16* const first = x + first_row * stride;
  const int count = static_cast<int>(min(rows - first_row, std::int64_t{kRows}));
  for_each_piece<kP>([&](int row, int channel) {
    copy_async<16>(tile + RowTile<kP>::index(row, channel), first + (row * stride + channel),
                   row < count && channel < stride);
  });
}

// Rounds a warp's 16 rows of a product to the tile, and writes them from there to x[first_row ..][stride].
template <int kP>
__device__ inline void store_rows(bf16* x, bf16* tile, const float (&d)[kP / 2], std::int64_t first_row,
                                  std::int64_t rows, int stride) {
  const int first = threadIdx.x % kWarpgroup / 32 * 16 + lane_id() / 4;
#pragma unroll
  for (int i = 0; i < kP / 4; ++i)
    store_pair(tile + RowTile<kP>::index(first + i % 2 * 8, i / 2 * 8) + lane_id() % 4 * 2, d[2 * i], d[2 * i + 1]);
  __syncwarp();
  for_each_piece<kP>([&](int row, int channel) {
    if (first_row + row < rows && channel < stride)
      *reinterpret_cast<uint4*>(x + (first_row + row) * stride + channel) =
          *reinterpret_cast<const uint4*>(tile + RowTile<kP>::index(row, channel));
  });
}

// The left operand of 16 columns, which are a thread's registers 8 k .. 8 k + 7 of a product.
__device__ inline void pack_operand(std::uint32_t (&a)[4], const float (&x)[8]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) a[i] = pack_bf16(x[2 * i], x[2 * i + 1]);
}

// Queues gate_up = x [Wg; Wu]^T for a warpgroup's rows and a stage's units: registers of the gate, then of what it
// multiplies.
template <int kP>
__device__ inline void multiply_gate_up(float (&gate_up)[kUnits], const bf16* x, const Stage<kP>& stage) {
#pragma unroll
  for (int k = 0; k < kP / 16; ++k)
    multiply<2 * kUnits>(gate_up, RowTile<kP>::k_in_columns(x, 0, 16 * k),
                         GateUpTile<kP>::k_in_columns(stage.gate_up, 0, 16 * k), k > 0);
}
// Queues d_hidden = dy Wd.
template <int kP>
__device__ inline void multiply_d_hidden(float (&d_hidden)[kUnits / 2], const bf16* d_y, const Stage<kP>& stage) {
#pragma unroll
  for (int k = 0; k < kP / 16; ++k)
    multiply<kUnits, Major::kK, Major::kMN>(d_hidden, RowTile<kP>::k_in_columns(d_y, 0, 16 * k),
                                            DownTile<kP>::k_in_rows(stage.down, 16 * k, 0), k > 0);
}

// A hidden unit of a row, and the gradients of its two factors.
struct UnitGradient {
  float hidden, gate, up;

  __device__ static UnitGradient of(float gate, float up, float d_hidden) {
    const float s = fast_sigmoid(gate), activated = gate * s;
    return {activated * up, d_hidden * up * (s + activated * (1.0f - s)), d_hidden * activated};
  }
};

// Calls function(integral constant kP) with the number of channels that the kernels give rows of `stride`.
template <class Function>
decltype(auto) dispatch_channels(int stride, Function&& function) {
  if (stride <= 64) return function(std::integral_constant<int, 64>{});
  if (stride <= 112) return function(std::integral_constant<int, 112>{});
  return function(std::integral_constant<int, 128>{});
}

inline void check_shape(int width, int stride, int inner) {
  if (!supports_fused_swiglu(stride, inner) || width < 1 || width > stride)
    throw std::runtime_error("fused SwiGLU: width " + std::to_string(width) + " in " + std::to_string(stride) +
                             " and inner " + std::to_string(inner) + " on this device");
}

// Blocks of `block_rows` rows.
inline unsigned blocks_of(std::int64_t rows, int block_rows) {
  return static_cast<unsigned>((rows + block_rows - 1) / block_rows);
}

}  // namespace engram::swiglu
