// Warp-level matrix products on tensor cores (mma.sync m16n8k16, compute capability 8.0 and later) for float and
// bfloat16 operands with float accumulation, written once for both.
//
// An operand is held as kPlanes<T> bfloat16 planes whose sum is the operand: one for bfloat16, three for float
// (8 + 8 + 8 bits: all of float's 24). A product of float operands is then six plane products, those below 2^-24
// left out. The register layouts are those of the PTX manual ("Matrix fragments for mma.m16n8k16"): in an
// accumulator, lane 4 g + t holds rows g and g + 8, columns 2 t and 2 t + 1.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "kernels/common/instructions.cuh"

namespace engram {

template <typename T>
constexpr int kPlanes = sizeof(T) == 2 ? 1 : 3;

// A 16 x 8 float tile spread over a warp.
struct Accumulator {
  float x[4];
};

// The left operand, 16 (m) x 16 (k). register order: (m 0-7, k 0-7), (m 8-15, k 0-7), (m 0-7, k 8-15), (8-15, 8-15).
template <int kCount>
struct FragmentA {
  std::uint32_t plane[kCount][4];
};

// The right operand, 16 (k) x 8 (n). register order: k 0-7, k 8-15.
template <int kCount>
struct FragmentB {
  std::uint32_t plane[kCount][2];
};

__device__ inline int lane_id() { return threadIdx.x % 32; }

__device__ inline float unpack_low(std::uint32_t packed) { return __uint_as_float(packed << 16); }
__device__ inline float unpack_high(std::uint32_t packed) { return __uint_as_float(packed & 0xffff0000u); }

__device__ inline float2 load_pair(const bf16* p) {
  const auto packed = *reinterpret_cast<const std::uint32_t*>(p);
  return make_float2(unpack_low(packed), unpack_high(packed));
}
__device__ inline float2 load_pair(const float* p) { return *reinterpret_cast<const float2*>(p); }
__device__ inline void store_pair(bf16* p, float low, float high) {
  *reinterpret_cast<std::uint32_t*>(p) = pack_bf16(low, high);
}
__device__ inline void store_pair(float* p, float low, float high) {
  *reinterpret_cast<float2*>(p) = make_float2(low, high);
}

// Puts the pair (low, high) into register `index` of every plane.
template <template <int> typename Fragment, int kCount>
__device__ inline void set_pair(Fragment<kCount>& fragment, int index, float low, float high) {
#pragma unroll
  for (int p = 0; p < kCount; ++p) {
    const std::uint32_t packed = pack_bf16(low, high);
    fragment.plane[p][index] = packed;
    low -= unpack_low(packed);
    high -= unpack_high(packed);
  }
}

template <int kCount>
__device__ inline void negate(FragmentA<kCount>& fragment) {
#pragma unroll
  for (int p = 0; p < kCount; ++p)
#pragma unroll
    for (int i = 0; i < 4; ++i) fragment.plane[p][i] ^= 0x80008000u;
}

// sum += a b, leaving out the products of planes that are smaller than either operand's last.
template <int kCountA, int kCountB>
__device__ inline void multiply_add_planes(Accumulator& sum, const FragmentA<kCountA>& a, const FragmentB<kCountB>& b) {
  constexpr int kOrders = kCountA > kCountB ? kCountA : kCountB;
#pragma unroll
  for (int order = kOrders - 1; order >= 0; --order)  // smallest first
#pragma unroll
    for (int i = 0; i < kCountA; ++i)
      if (order - i >= 0 && order - i < kCountB)
        multiply_add_bf16(sum.x, a.plane[i], b.plane[order - i]);
}

// sum += a b. The tensor cores truncate where they add; for float operands that bias would add up over a long
// sequence, so their product is formed apart and added with rounding.
template <int kCountA, int kCountB>
__device__ inline void multiply_add(Accumulator& sum, const FragmentA<kCountA>& a, const FragmentB<kCountB>& b) {
  if constexpr (kCountA < 3) {
    multiply_add_planes(sum, a, b);
  } else {
    Accumulator product = {};
    multiply_add_planes(product, a, b);
#pragma unroll
    for (int i = 0; i < 4; ++i) sum.x[i] += product.x[i];
  }
}

// Loads from shared memory. `p` is the first element of the stored tile, `stride` the elements between its rows,
// which must be a multiple of 8 and keep each row 16-byte aligned.

// A(m, k) = p[m * stride + k]
__device__ inline void load_a(FragmentA<1>& a, const bf16* p, int stride) {
  const int lane = lane_id();
  load_matrices<false>(a.plane[0], p + (lane % 16) * stride + lane / 16 * 8);
}
template <int kCount>
__device__ inline void load_a(FragmentA<kCount>& a, const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = *reinterpret_cast<const float2*>(p + (g + i % 2 * 8) * stride + i / 2 * 8 + 2 * t);
    set_pair(a, i, x.x, x.y);
  }
}

// A(m, k) = p[k * stride + m]
__device__ inline void load_a_transposed(FragmentA<1>& a, const bf16* p, int stride) {
  const int lane = lane_id();
  load_matrices<true>(a.plane[0], p + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
}
template <int kCount>
__device__ inline void load_a_transposed(FragmentA<kCount>& a, const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* x = p + (i / 2 * 8 + 2 * t) * stride + g + i % 2 * 8;
    set_pair(a, i, x[0], x[stride]);
  }
}

// Two right operands beside each other: b[0] has n 0-7, b[1] has n 8-15. B(k, n) = p[n * stride + k]
__device__ inline void load_b(FragmentB<1> (&b)[2], const bf16* p, int stride) {
  const int lane = lane_id();
  std::uint32_t x[4];
  load_matrices<false>(x, p + (lane % 8 + lane / 16 * 8) * stride + lane / 8 % 2 * 8);
  b[0].plane[0][0] = x[0], b[0].plane[0][1] = x[1], b[1].plane[0][0] = x[2], b[1].plane[0][1] = x[3];
}
template <int kCount>
__device__ inline void load_b(FragmentB<kCount> (&b)[2], const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = *reinterpret_cast<const float2*>(p + (g + i / 2 * 8) * stride + i % 2 * 8 + 2 * t);
    set_pair(b[i / 2], i % 2, x.x, x.y);
  }
}

// The same with B(k, n) = p[k * stride + n]
__device__ inline void load_b_transposed(FragmentB<1> (&b)[2], const bf16* p, int stride) {
  const int lane = lane_id();
  std::uint32_t x[4];
  load_matrices<true>(x, p + (lane % 16) * stride + lane / 16 * 8);
  b[0].plane[0][0] = x[0], b[0].plane[0][1] = x[1], b[1].plane[0][0] = x[2], b[1].plane[0][1] = x[3];
}
template <int kCount>
__device__ inline void load_b_transposed(FragmentB<kCount> (&b)[2], const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* x = p + (i % 2 * 8 + 2 * t) * stride + g + i / 2 * 8;
    set_pair(b[i / 2], i % 2, x[0], x[stride]);
  }
}

// A 16 x 16 block stored as its left and its right 16 x 8 tile, each row by row: what a warp reads or writes at once is
// contiguous.
constexpr int kBlockTile = 128;

// As load_b, B(k, n) = block(n, k).
__device__ inline void load_b_block(FragmentB<1> (&b)[2], const bf16* block) {
  const int lane = lane_id();
  std::uint32_t x[4];
  load_matrices<false>(x, block + lane / 8 % 2 * kBlockTile + (lane % 8 + lane / 16 * 8) * 8);
  b[0].plane[0][0] = x[0], b[0].plane[0][1] = x[1], b[1].plane[0][0] = x[2], b[1].plane[0][1] = x[3];
}
template <int kCount>
__device__ inline void load_b_block(FragmentB<kCount> (&b)[2], const float* block) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float2 x = load_pair(block + i % 2 * kBlockTile + (g + i / 2 * 8) * 8 + 2 * t);
    set_pair(b[i / 2], i % 2, x.x, x.y);
  }
}

// As load_b_transposed, B(k, n) = block(k, n).
__device__ inline void load_b_block_transposed(FragmentB<1> (&b)[2], const bf16* block) {
  std::uint32_t x[4];
  load_matrices<true>(x, block + lane_id() * 8);
  b[0].plane[0][0] = x[0], b[0].plane[0][1] = x[1], b[1].plane[0][0] = x[2], b[1].plane[0][1] = x[3];
}
template <int kCount>
__device__ inline void load_b_block_transposed(FragmentB<kCount> (&b)[2], const float* block) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    const float* x = block + i / 2 * kBlockTile + (i % 2 * 8 + 2 * t) * 8 + g;
    set_pair(b[i / 2], i % 2, x[0], x[8]);
  }
}

// Adds each of 8 values over the lanes of equal lane % 4, which hold an accumulator's rows; lane 4 g + t returns the
// sum of value g.
__device__ inline float sum_over_rows(float (&x)[8]) {
  const int lane = lane_id();
#pragma unroll
  for (int count = 4; count >= 1; count /= 2) {
    const bool upper = lane & 4 * count;
#pragma unroll
    for (int i = 0; i < count; ++i) {
      const float keep = upper ? x[i + count] : x[i], send = upper ? x[i] : x[i + count];
      x[i] = keep + __shfl_xor_sync(0xffffffffu, send, 4 * count);
    }
  }
  return x[0];
}

// Two accumulators beside each other as the left operand of the next product.
template <int kCount>
__device__ inline void to_fragment(FragmentA<kCount>& a, const Accumulator& left, const Accumulator& right) {
  set_pair(a, 0, left.x[0], left.x[1]);
  set_pair(a, 1, left.x[2], left.x[3]);
  set_pair(a, 2, right.x[0], right.x[1]);
  set_pair(a, 3, right.x[2], right.x[3]);
}

// Registers of a warp in shared memory, to be read by the same lanes of another warp.
// A slot holds the leading planes, all or fewer.
template <int kCount, int kStored>
__device__ inline void store_fragment(uint4 (&slot)[kStored][32], const FragmentA<kCount>& a) {
  static_assert(kStored <= kCount);
#pragma unroll
  for (int p = 0; p < kStored; ++p)
    slot[p][lane_id()] = make_uint4(a.plane[p][0], a.plane[p][1], a.plane[p][2], a.plane[p][3]);
}
template <int kCount>
__device__ inline void load_fragment(FragmentA<kCount>& a, const uint4 (&slot)[kCount][32]) {
#pragma unroll
  for (int p = 0; p < kCount; ++p) {
    const uint4 x = slot[p][lane_id()];
    a.plane[p][0] = x.x, a.plane[p][1] = x.y, a.plane[p][2] = x.z, a.plane[p][3] = x.w;
  }
}
__device__ inline void store_accumulator(float4 (&slot)[32], const Accumulator& x) {
  slot[lane_id()] = make_float4(x.x[0], x.x[1], x.x[2], x.x[3]);
}
__device__ inline void add_accumulator(Accumulator& sum, const float4 (&slot)[32]) {
  const float4 x = slot[lane_id()];
  sum.x[0] += x.x, sum.x[1] += x.y, sum.x[2] += x.z, sum.x[3] += x.w;
}

// Two accumulators beside each other from shared memory: x(row, column) = p[column * stride + row]
__device__ inline void load_transposed(Accumulator& left, Accumulator& right, const bf16* p, int stride) {
  FragmentA<1> a;
  load_a_transposed(a, p, stride);
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    Accumulator& tile = i < 2 ? left : right;
    tile.x[i % 2 * 2] = unpack_low(a.plane[0][i]);
    tile.x[i % 2 * 2 + 1] = unpack_high(a.plane[0][i]);
  }
}
__device__ inline void load_transposed(Accumulator& left, Accumulator& right, const float* p, int stride) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    left.x[i] = p[(2 * t + i % 2) * stride + g + i / 2 * 8];
    right.x[i] = p[(8 + 2 * t + i % 2) * stride + g + i / 2 * 8];
  }
}

// Stores to global memory what lies inside `rows` x `columns` of memory's rows and columns; columns is even. A tile's
// offsets fit 32 bits, which spares most of the address arithmetic.

// p[row * stride + column] = x(row, column)
template <typename T>
__device__ inline void store(T* p, int stride, const Accumulator& x, int rows, int columns) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  T* own = p + (g * stride + 2 * t);
#pragma unroll
  for (int i = 0; i < 2; ++i)
    if (g + 8 * i < rows && 2 * t < columns) store_pair(own + 8 * i * stride, x.x[2 * i], x.x[2 * i + 1]);
}

// p[column * stride + row] = x(row, column): memory's rows are the tile's columns.
__device__ inline void store_transposed(bf16* p, int stride, const Accumulator& x, int rows, int columns) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  bf16* own = p + (g * stride + 2 * t);
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    const std::uint32_t pair = transpose_pairs(pack_bf16(x.x[2 * i], x.x[2 * i + 1]));
    if (g < rows && 2 * t + 8 * i < columns) *reinterpret_cast<std::uint32_t*>(own + 8 * i) = pair;
  }
}
__device__ inline void store_transposed(float* p, int stride, const Accumulator& x, int rows, int columns) {
  const int g = lane_id() / 4, t = lane_id() % 4;
  float* own = p + (2 * t * stride + g);
#pragma unroll
  for (int i = 0; i < 4; ++i)
    if (2 * t + i % 2 < rows && g + i / 2 * 8 < columns) own[i % 2 * stride + i / 2 * 8] = x.x[i];
}

// A 16 x 8 tile in global or shared memory, in the order in which a later product reads it as its right operand with
// k = the tile's row and n = its column: one coalesced access a warp.
constexpr int kOperandTile = 128;

__device__ inline void store_operand(bf16* tile, const Accumulator& x) {
  uint2 pairs;
  pairs.x = transpose_pairs(pack_bf16(x.x[0], x.x[1]));
  pairs.y = transpose_pairs(pack_bf16(x.x[2], x.x[3]));
  reinterpret_cast<uint2*>(tile)[lane_id()] = pairs;
}
__device__ inline void store_operand(float* tile, const Accumulator& x) {
  const int g = lane_id() / 4, t = lane_id() % 4;
#pragma unroll
  for (int i = 0; i < 4; ++i) tile[((2 * t + i % 2) * 4 + g / 2) * 4 + g % 2 + i / 2 * 2] = x.x[i];
}
__device__ inline void load_operand(FragmentB<1>& b, const bf16* tile) {
  const uint2 pairs = reinterpret_cast<const uint2*>(tile)[lane_id()];
  b.plane[0][0] = pairs.x, b.plane[0][1] = pairs.y;
}
template <int kCount>
__device__ inline void load_operand(FragmentB<kCount>& b, const float* tile) {
  const float4 x = reinterpret_cast<const float4*>(tile)[lane_id()];
  set_pair(b, 0, x.x, x.y);
  set_pair(b, 1, x.z, x.w);
}

}  // namespace engram
