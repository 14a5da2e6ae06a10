// Eight neighbouring elements of a row at a time, held as floats; and sums over the lanes that share a row.
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

#include "base/dropout.h"
#include "kernels/common/fast_math.h"
#include "kernels/common/tensor_core.cuh"

namespace engram {

constexpr int kVector = 8;

struct RowVector {
  float x[kVector];
};

// `p` is 16-byte aligned.
__device__ inline RowVector load_vector(const float* p) {
  const float4 low = reinterpret_cast<const float4*>(p)[0], high = reinterpret_cast<const float4*>(p)[1];
  return {{low.x, low.y, low.z, low.w, high.x, high.y, high.z, high.w}};
}
__device__ inline RowVector load_vector(const bf16* p) {
  const uint4 packed = *reinterpret_cast<const uint4*>(p);
  return {{unpack_low(packed.x), unpack_high(packed.x), unpack_low(packed.y), unpack_high(packed.y),
           unpack_low(packed.z), unpack_high(packed.z), unpack_low(packed.w), unpack_high(packed.w)}};
}
__device__ inline void store_vector(float* p, const RowVector& v) {
  reinterpret_cast<float4*>(p)[0] = make_float4(v.x[0], v.x[1], v.x[2], v.x[3]);
  reinterpret_cast<float4*>(p)[1] = make_float4(v.x[4], v.x[5], v.x[6], v.x[7]);
}
__device__ inline void store_vector(bf16* p, const RowVector& v) {
  *reinterpret_cast<uint4*>(p) = make_uint4(pack_bf16(v.x[0], v.x[1]), pack_bf16(v.x[2], v.x[3]),
                                            pack_bf16(v.x[4], v.x[5]), pack_bf16(v.x[6], v.x[7]));
}

// A vector as it is stored: what is loaded before it is needed takes half the registers.
template <typename T>
struct StoredVector {
  uint4 word[sizeof(T) / 2] = {};

  StoredVector() = default;
  // Zero where nothing is held.
  __device__ StoredVector(bool holds, const T* p) {
    if (!holds) return;
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 2; ++i) word[i] = reinterpret_cast<const uint4*>(p)[i];
  }
  __device__ explicit StoredVector(const RowVector& rounded) { store_vector(reinterpret_cast<T*>(word), rounded); }

  __device__ RowVector floats() const { return load_vector(reinterpret_cast<const T*>(word)); }
  __device__ void store(T* p) const {
#pragma unroll
    for (unsigned i = 0; i < sizeof(T) / 2; ++i) reinterpret_cast<uint4*>(p)[i] = word[i];
  }
};

// Elements `first` .. `first` + 7 of an array of `size` floats of any alignment; 0 after its end.
__device__ inline RowVector load_bounded(const float* p, int first, int size) {
  RowVector v;
#pragma unroll
  for (int i = 0; i < kVector; ++i) v.x[i] = first + i < size ? p[first + i] : 0.0f;
  return v;
}

// What dropout multiplies the elements of its group `group` with.
__device__ inline RowVector dropout_factors(const DropoutKey& dropout, std::int64_t group) {
  if (!dropout.drops()) return {{1, 1, 1, 1, 1, 1, 1, 1}};
  RowVector factor;
  dropout.draw(group, factor.x);
  return factor;
}
__device__ inline RowVector dropped(const DropoutKey& dropout, std::int64_t group, RowVector v) {
  if (!dropout.drops()) return v;
  const RowVector factor = dropout_factors(dropout, group);
#pragma unroll
  for (int i = 0; i < kVector; ++i) v.x[i] *= factor.x[i];
  return v;
}

// The sum over the kLanes neighbouring lanes that hold one row, in all of them. All lanes of the warp take part.
template <int kLanes>
__device__ inline float row_sum(float x) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) x += __shfl_xor_sync(0xffffffffu, x, distance);
  return x;
}

__device__ inline float silu(float x) { return x * fast_sigmoid(x); }
__device__ inline float silu_derivative(float x) {
  const float s = fast_sigmoid(x);
  return s * (1.0f + x * (1.0f - s));
}

}  // namespace engram
