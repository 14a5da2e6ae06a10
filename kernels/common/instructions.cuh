// Instructions of a GPU that C++ has no words for: products on tensor cores, moves of a warp's tiles, copies under way.
// The register layouts are those of the PTX manual ("Matrix fragments for mma.m16n8k16").
// Tests have the same functions for a CPU (tests/kernels/on_cpu).
#pragma once

#include <cuda_bf16.h>

#include <cstdint>

namespace engram {

using bf16 = __nv_bfloat16;

__device__ inline std::uint32_t pack_bf16(float low, float high) {
  std::uint32_t packed;
  asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(packed) : "f"(high), "f"(low));
  return packed;
}

// The larger of each of both and 0: NaN stays NaN.
__device__ inline std::uint32_t relu_pair(std::uint32_t pair) {
  std::uint32_t y;
  asm("max.NaN.bf16x2 %0, %1, %2;" : "=r"(y) : "r"(pair), "r"(0));
  return y;
}

// sum += a b of a warp: 16 x 8, 16 x 16 and 16 x 8.
__device__ inline void multiply_add_bf16(float (&sum)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}

// Transposes an 8 x 8 tile of pairs held by a warp.
__device__ inline std::uint32_t transpose_pairs(std::uint32_t x) {
  std::uint32_t y;
  asm("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(y) : "r"(x));
  return y;
}

// Four 8 x 8 matrices from shared memory: lane 8 i + j says where row j of the i-th begins, at a multiple of 16 bytes.
template <bool kTranspose>
__device__ inline void load_matrices(std::uint32_t (&x)[4], const bf16* row) {
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTranspose)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(x[0]), "=r"(x[1]), "=r"(x[2]), "=r"(x[3])
                 : "r"(address)
                 : "memory");
}

// Copies 4, 8 or 16 bytes from global to shared memory, asynchronously; `valid` false writes zeros and reads nothing.
template <int kBytes>
__device__ inline void copy_async(void* shared, const void* global, bool valid) {
  static_assert(kBytes == 4 || kBytes == 8 || kBytes == 16);
  const auto address = static_cast<std::uint32_t>(__cvta_generic_to_shared(shared));
  const int source_bytes = valid ? kBytes : 0;
  if constexpr (kBytes == 16)
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(address), "l"(global), "r"(source_bytes)
                 : "memory");
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(address), "l"(global), "n"(kBytes),
                 "r"(source_bytes)
                 : "memory");
}
__device__ inline void commit_copies() { asm volatile("cp.async.commit_group;" ::: "memory"); }
// Waits until at most `kPending` of the committed groups are under way.
template <int kPending>
__device__ inline void wait_for_groups() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
__device__ inline void wait_for_copies() { asm volatile("cp.async.wait_all;" ::: "memory"); }

}  // namespace engram
