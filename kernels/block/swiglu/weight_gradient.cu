#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "kernels/block/swiglu/stage.cuh"

namespace engram {
namespace swiglu {
namespace {

// A block keeps its 64 hidden units and walks over rows, 64 at a time. Two warpgroups, in turn, compute gate, up and
// their gradients of 64 rows and leave hidden, d_gate and d_up in shared memory; a third adds the products with the
// rows to the weights' gradients in its registers; a fourth copies rows.
constexpr int kComputing = 2;
[[maybe_unused]] constexpr int kAdding = 2, kCopying = 3;  // these warpgroups' numbers
constexpr int kThreads = 4 * kWarpgroup;
[[maybe_unused]] constexpr int kComputeRegisters = 136, kAddRegisters = 200, kCopyRegisters = 40;
constexpr int kMatrices = 3;  // gate, up, down

using UnitTile = BlockTile<kRows, kUnits, kTilePad>;

template <int kP>
struct Shared {
  static constexpr int kSlots = kP <= 112 ? 4 : 3;
  Stage<kP> weights;
  struct {
    bf16 x[RowTile<kP>::kElements], d_y[RowTile<kP>::kElements];
  } rows[kSlots];
  bf16 units[kComputing][kMatrices][UnitTile::kElements];  // d_gate, d_up, hidden
};

// Left operands of 16 columns each to a tile's columns 16 k ..
[[maybe_unused]] __device__ inline void put_units(bf16* tile, int k, const float (&x)[8]) {
  const int row = threadIdx.x % kWarpgroup / 32 * 16 + lane_id() / 4;
#pragma unroll
  for (int i = 0; i < 4; ++i)
    store_pair(tile + UnitTile::index(row + i % 2 * 8, 16 * k + i / 2 * 8) + lane_id() % 4 * 2, x[2 * i], x[2 * i + 1]);
}

// Channels that a block adds up: all, or half of more than the registers hold.
template <int kP>
constexpr int kSumChannels = kP <= 112 ? kP : kP / 2;

// Partial sums: [split][part of the channels][chunk of units][matrix][pair of a thread's registers][thread].
template <int kP>
constexpr int kPairs = kSumChannels<kP> / 4;

template <int kP>
__global__ void __launch_bounds__(kThreads, 1)
    weight_gradient_kernel(FusedSwiGlu input, const bf16* __restrict__ d_y, float2* __restrict__ partial) {
#ifdef ENGRAM_HAS_WGMMA
  constexpr int kSlots = Shared<kP>::kSlots;
  extern __shared__ __align__(128) unsigned char bytes[];
  auto& shared = *reinterpret_cast<Shared<kP>*>(bytes);
  __shared__ SharedBarrier weights;
  __shared__ RingBarriers<kSlots> rows;
  __shared__ RingBarriers<kComputing> units;
  const int group = warpgroup_id(), chunk = blockIdx.x, splits = gridDim.y, split = blockIdx.y;
  const auto tiles = static_cast<int>((input.rows + kRows - 1) / kRows);
  const int count = (tiles - split + splits - 1) / splits;  // this block's tiles: split, split + splits, ...
  if (threadIdx.x == 0) {
    weights.initialize(1);
    rows.initialize(kWarpgroup, 2 * kWarpgroup / 32);  // of the readers one a warp
    units.initialize(kWarpgroup, kWarpgroup / 32);
  }
  __syncthreads();

  if (group == kCopying) {
    shrink_registers<kCopyRegisters>();
    if (threadIdx.x % kWarpgroup == 0) {
      weights.arrive_expecting(sizeof(Stage<kP>));
      weights.copy(&shared.weights, static_cast<const Stage<kP>*>(input.weights) + chunk, sizeof(Stage<kP>));
    }
    RingPlace<kSlots> at;
    int last_slot = 0;
    for (int n = 0; n <= count; ++n) {
      if (n < count) {
        if (n >= kSlots) rows.empty[at.slot].wait(at.parity ^ 1);
        const std::int64_t first_row = (split + std::int64_t{n} * splits) * kRows;
        auto& slot = shared.rows[at.slot];
        load_rows<kP>(slot.x, static_cast<const bf16*>(input.x), first_row, input.rows, input.stride);
        load_rows<kP>(slot.d_y, d_y, first_row, input.rows, input.stride);
        commit_copies();
        wait_for_groups<1>();
      } else {
        wait_for_copies();
      }
      if (n > 0) {
        publish_to_products();
        rows.full[last_slot].arrive();
      }
      last_slot = at.slot;
      at.advance();
    }
  } else if (group == kAdding) {
    grow_registers<kAddRegisters>();
    constexpr int kN = kSumChannels<kP>;
    float sum[kMatrices][kN / 2] = {};
    RingPlace<kSlots> at;
    for (int n = 0; n < count; ++n) {
      const int half = n % kComputing;
      rows.full[at.slot].wait(at.parity);
      units.full[half].wait(n / kComputing % 2);
      start_products();
#pragma unroll
      for (int m = 0; m < kMatrices; ++m)
#pragma unroll
        for (int k = 0; k < kRows / 16; ++k)
          multiply<kN, Major::kMN, Major::kMN>(
              sum[m], UnitTile::k_in_rows(shared.units[half][m], 16 * k, 0),
              RowTile<kP>::k_in_rows(m == 2 ? shared.rows[at.slot].d_y : shared.rows[at.slot].x, 16 * k,
                                     blockIdx.z * kN),
              true);
      commit_products();
      wait_for_products<0>();
      if (lane_id() == 0) {
        rows.empty[at.slot].arrive();
        units.empty[half].arrive();
      }
      at.advance();
    }
    const std::int64_t block = (std::int64_t{split} * gridDim.z + blockIdx.z) * gridDim.x + chunk;
    float2* const out = partial + block * kMatrices * kPairs<kP> * kWarpgroup + threadIdx.x % kWarpgroup;
#pragma unroll
    for (int m = 0; m < kMatrices; ++m) {
      hold_registers(sum[m]);
#pragma unroll
      for (int i = 0; i < kPairs<kP>; ++i)
        out[(m * kPairs<kP> + i) * kWarpgroup] = make_float2(sum[m][2 * i], sum[m][2 * i + 1]);
    }
  } else {
    grow_registers<kComputeRegisters>();
    float gate_up[kUnits], d_hidden[kUnits / 2];
    bf16(&tile)[kMatrices][UnitTile::kElements] = shared.units[group];
    RingPlace<kSlots> at;
    if (group == 1) at.advance();
    weights.wait(0);
    for (int n = group; n < count; n += kComputing) {
      rows.full[at.slot].wait(at.parity);
      const auto& slot = shared.rows[at.slot];
      start_products();
      multiply_gate_up<kP>(gate_up, slot.x, shared.weights);
      multiply_d_hidden<kP>(d_hidden, slot.d_y, shared.weights);
      commit_products();
      wait_for_products<0>();
      hold_registers(gate_up);
      hold_registers(d_hidden);
      if (lane_id() == 0) rows.empty[at.slot].arrive();
      if (n >= kComputing) units.empty[group].wait((n / kComputing - 1) % 2);
#pragma unroll
      for (int k = 0; k < kUnits / 16; ++k) {
        float h[8], d_g[8], d_u[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          const auto d = UnitGradient::of(gate_up[8 * k + i], gate_up[kUnits / 2 + 8 * k + i], d_hidden[8 * k + i]);
          h[i] = d.hidden;
          d_g[i] = d.gate;
          d_u[i] = d.up;
        }
        put_units(tile[0], k, d_g);
        put_units(tile[1], k, d_u);
        put_units(tile[2], k, h);
      }
      publish_to_products();
      units.full[group].arrive();
      at.advance();
      at.advance();
    }
  }
#endif
}

// One thread for two neighbouring channels of a unit. One block: as partial's first dimension of all but the last.
template <int kP>
__global__ void __launch_bounds__(kWarpgroup)
    add_weight_gradients(SwiGluWeightGradient gradient, int width, int inner, int splits, const float2* partial) {
  const int pair = blockIdx.x % kPairs<kP>, matrix = blockIdx.x / kPairs<kP> % kMatrices;
  const int block = blockIdx.x / (kPairs<kP> * kMatrices), chunk = block % (inner / kUnits),
            part = block / (inner / kUnits);
  float2 sum = {};
  const float2* p = partial + std::int64_t{blockIdx.x} * kWarpgroup + threadIdx.x;
#pragma unroll 8
  for (int s = 0; s < splits; ++s, p += std::int64_t{gridDim.x} * kWarpgroup) {
    sum.x += p->x;
    sum.y += p->y;
  }
  const int unit = chunk * kUnits + threadIdx.x / 32 * 16 + lane_id() / 4 + pair % 2 * 8;
  const int channel = part * kSumChannels<kP> + pair / 2 * 8 + lane_id() % 4 * 2;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    if (channel + i >= width) continue;
    const float x = i == 0 ? sum.x : sum.y;
    if (matrix == 0) gradient.gate_ID[unit * width + channel + i] = x;
    if (matrix == 1) gradient.up_ID[unit * width + channel + i] = x;
    if (matrix == 2) gradient.down_DI[(channel + i) * inner + unit] = x;
  }
}

// The grid's dimensions: chunks of units, splits of the rows, parts of the channels.
template <int kP>
dim3 grid_of(const FusedSwiGlu& input) {
  constexpr int kParts = kP / kSumChannels<kP>;
  const int chunks = input.inner / kUnits;
  const std::int64_t splits = cuda_device_attribute(cudaDevAttrMultiProcessorCount) / (chunks * kParts);
  return {static_cast<unsigned>(chunks),
          std::clamp(static_cast<unsigned>(splits), 1u, std::max(1u, blocks_of(input.rows, kRows))), kParts};
}

template <int kP>
std::int64_t sums_of(const dim3& grid) {
  return std::int64_t{grid.x} * grid.z * kMatrices * kPairs<kP>;
}

}  // namespace
}  // namespace swiglu

std::size_t fused_swiglu_weight_gradient_scratch_bytes(const FusedSwiGlu& input) {
  using namespace swiglu;
  return dispatch_channels(input.stride, [&](auto channels) {
    constexpr int kP = channels;
    const dim3 grid = grid_of<kP>(input);
    return sizeof(float2) * sums_of<kP>(grid) * grid.y * kWarpgroup;
  });
}

void fused_swiglu_weight_gradient(const FusedSwiGlu& input, const SwiGluWeightGradient& gradient, void* scratch,
                                  cudaStream_t stream) {
  using namespace swiglu;
  check_shape(input.width, input.stride, input.inner);
  dispatch_channels(input.stride, [&](auto channels) {
    constexpr int kP = channels;
    const dim3 grid = grid_of<kP>(input);
    auto* const partial = static_cast<float2*>(scratch);
    launch(weight_gradient_kernel<kP>, grid, kThreads, sizeof(Shared<kP>), stream, "SwiGLU's weight gradients", input,
           static_cast<const bf16*>(gradient.y), partial);
    add_weight_gradients<kP><<<static_cast<unsigned>(sums_of<kP>(grid)), kWarpgroup, 0, stream>>>(
        gradient, input.width, input.inner, static_cast<int>(grid.y), partial);
  });
  check_cuda(cudaGetLastError(), "SwiGLU's weight gradients");
}

}  // namespace engram
