// Hopper's asynchronous matrix products (wgmma, bfloat16 operands, float accumulation) and what feeds them: operands in
// shared memory, barriers there, copies in one piece. Thin wrappers of PTX; compute capability 9.0 alone and its
// architecture-specific code (sm_90a) has them, so that a kernel that uses them defines its body where
// ENGRAM_HAS_WGMMA is defined, beside base code for other devices.
//
// A product is a warpgroup's, 128 threads whose first is a multiple of 128:
//   start_products();                       // the registers that follow are written
//   multiply<N>(d, a, b, false); ...        // d (=, +=) a b, each 64 x 16 times 16 x N
//   commit_products();
//   wait_for_products<0>();                 // all but the last 0 groups have ended: d may be read, operands written
// In d, thread 32 w + 4 g + t holds rows 16 w + g (d[4 j], d[4 j + 1]) and 16 w + g + 8 (d[4 j + 2], d[4 j + 3]) of the
// columns 8 j + 2 t and 8 j + 2 t + 1: per warp the accumulators of mma.sync, so that two neighbouring tiles packed to
// bfloat16 are the left operand in registers of the next product (Shah et al. 2024, FlashAttention-3).
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "kernels/common/cuda_support.h"
#include "kernels/common/tensor_core.cuh"

#if defined(__CUDA_ARCH_FEAT_SM90_ALL)
#define ENGRAM_HAS_WGMMA
#endif

namespace engram {

constexpr int kWarpgroup = 128;

// Whether the kernel's body was compiled for this device: only there has it static shared memory, which every
// such kernel has for its barriers.
template <class Kernel>
bool has_body(Kernel* kernel) {
  cudaFuncAttributes attributes;
  check_cuda(cudaFuncGetAttributes(&attributes, kernel), "attributes of a kernel with wgmma");
  return attributes.sharedSizeBytes > 0;
}

// Which of the block's warpgroups this thread is in, as a number that the compiler knows to be a warp's.
__device__ inline int warpgroup_id() { return __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x) / kWarpgroup, 0); }

__device__ inline std::uint32_t shared_address(const void* p) {
  return static_cast<std::uint32_t>(__cvta_generic_to_shared(p));
}

// kRows x kColumns bfloat16 elements, multiples of 8, as 8 x 8 blocks of 128 bytes, those of the same columns one after
// the other: what the PTX manual calls core matrices without swizzle. 16-byte aligned; wgmma reads it with the
// products' k along its rows or down its columns. With k down the columns it fetches a row of neighbouring blocks at
// once: kPad, 8 elements after the blocks of the same columns, puts these into different banks.
template <int kRows, int kColumns, int kPad = 0>
struct BlockTile {
  static_assert(kPad % 8 == 0);
  static constexpr int kColumnElements = 8 * kRows + kPad;  // of eight columns
  static constexpr int kElements = kColumns / 8 * kColumnElements;
  static constexpr int kBytes = 2 * kElements;

  HOST_DEVICE static constexpr int index(int row, int column) {
    return column / 8 * kColumnElements + row * 8 + column % 8;
  }
  HOST_DEVICE static constexpr int row_of(int index) { return index % kColumnElements / 8; }  // kRows: in the pad
  HOST_DEVICE static constexpr int column_of(int index) { return index / kColumnElements * 8 + index % 8; }
  // The operand of which k is a tile's column and m or n = 0 is `row`. To be multiplied as it is ("K-major").
  __device__ static std::uint64_t k_in_columns(const bf16* tile, int row, int column) {
    return descriptor(tile, index(row, column), 2 * kColumnElements, 128);
  }
  // The operand of which k is a tile's row and m or n = 0 is `column`. To be multiplied transposed ("MN-major").
  __device__ static std::uint64_t k_in_rows(const bf16* tile, int row, int column) {
    return descriptor(tile, index(row, column), 128, 2 * kColumnElements);
  }

 private:
  // Bytes between blocks that are neighbours in k, and in m or n. Constants are added after the address was divided, so
  // that a tile's operands differ by one addition.
  __device__ static std::uint64_t descriptor(const bf16* tile, int first, int k_bytes, int mn_bytes) {
    const std::uint32_t low =
        (shared_address(tile) >> 4) + static_cast<std::uint32_t>(first / 8 + (k_bytes >> 4 << 16));
    return low | static_cast<std::uint64_t>(mn_bytes >> 4) << 32;
  }
};

enum class Major { kK, kMN };  // of an operand in shared memory: k_in_columns, k_in_rows

__device__ inline void start_products() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void commit_products() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int kPending>
__device__ inline void wait_for_products() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}
// Keeps reads and writes of registers that a product under way uses on their side of this line.
template <int kCount>
__device__ inline void hold_registers(float (&d)[kCount]) {
#pragma unroll
  for (int i = 0; i < kCount; ++i) asm volatile("" : "+f"(d[i])::"memory");
}

// The same, of left operands.
template <int kCount>
__device__ inline void hold_operands(std::uint32_t (&a)[kCount][4]) {
#pragma unroll
  for (int k = 0; k < kCount; ++k)
#pragma unroll
    for (int i = 0; i < 4; ++i) asm volatile("" : "+r"(a[k][i])::"memory");
}

template <int kN>
struct ProductOfShape;

#define ENGRAM_REGISTERS_0_7 "%0, %1, %2, %3, %4, %5, %6, %7"
#define ENGRAM_REGISTERS_0_31                                                                       \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define ENGRAM_REGISTERS_32_55                                                                      \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, " \
  "%51, %52, %53, %54, %55"
#define ENGRAM_REGISTERS_56_63 "%56, %57, %58, %59, %60, %61, %62, %63"
#define ENGRAM_REGISTERS_64_127                                                                      \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, %80, %81, %82, "  \
  "%83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95, %96, %97, %98, %99, %100, "      \
  "%101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111, %112, %113, %114, %115, %116, " \
  "%117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define ENGRAM_IN_OUT_8(i)                                                                                    \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), \
      "+f"(d[i + 7])
#define ENGRAM_IN_OUT_32(i) ENGRAM_IN_OUT_8(i), ENGRAM_IN_OUT_8(i + 8), ENGRAM_IN_OUT_8(i + 16), ENGRAM_IN_OUT_8(i + 24)

// The operands after d are numbered r0 .. r7.
#define ENGRAM_PRODUCT_OF_SHAPE(n, registers, in_out, r0, r1, r2, r3, r4, r5, r6, r7)                                \
  template <>                                                                                                        \
  struct ProductOfShape<n> {                                                                                         \
    template <int kTransposeA, int kTransposeB>                                                                      \
    __device__ static void run(float (&d)[n / 2], std::uint64_t a, std::uint64_t b, int accumulate) {                \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #r2 ", 0; wgmma.mma_async.sync.aligned.m64n" #n                 \
                   "k16.f32.bf16.bf16 {" registers "}, %" #r0 ", %" #r1 ", p, 1, 1, %" #r3 ", %" #r4 ";}"            \
                   : in_out                                                                                          \
                   : "l"(a), "l"(b), "r"(accumulate), "n"(kTransposeA), "n"(kTransposeB)                             \
                   : "memory");                                                                                      \
    }                                                                                                                \
    template <int kTransposeB, int kSignA>                                                                           \
    __device__ static void run(float (&d)[n / 2], const std::uint32_t (&a)[4], std::uint64_t b, int accumulate) {    \
      asm volatile("{.reg .pred p; setp.ne.b32 p, %" #r5 ", 0; wgmma.mma_async.sync.aligned.m64n" #n                 \
                   "k16.f32.bf16.bf16 {" registers "}, {%" #r0 ", %" #r1 ", %" #r2 ", %" #r3 "}, %" #r4 ", p, %" #r7 \
                   ", 1, %" #r6 ";}"                                                                                 \
                   : in_out                                                                                          \
                   : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b), "r"(accumulate), "n"(kTransposeB),          \
                     "n"(kSignA)                                                                                     \
                   : "memory");                                                                                      \
    }                                                                                                                \
  }

ENGRAM_PRODUCT_OF_SHAPE(16, ENGRAM_REGISTERS_0_7, ENGRAM_IN_OUT_8(0), 8, 9, 10, 11, 12, 13, 14, 15);
ENGRAM_PRODUCT_OF_SHAPE(64, ENGRAM_REGISTERS_0_31, ENGRAM_IN_OUT_32(0), 32, 33, 34, 35, 36, 37, 38, 39);
#define ENGRAM_REGISTERS_0_55 ENGRAM_REGISTERS_0_31 ", " ENGRAM_REGISTERS_32_55
#define ENGRAM_IN_OUT_56 ENGRAM_IN_OUT_32(0), ENGRAM_IN_OUT_8(32), ENGRAM_IN_OUT_8(40), ENGRAM_IN_OUT_8(48)
ENGRAM_PRODUCT_OF_SHAPE(112, ENGRAM_REGISTERS_0_55, ENGRAM_IN_OUT_56, 56, 57, 58, 59, 60, 61, 62, 63);
#define ENGRAM_REGISTERS_0_63 ENGRAM_REGISTERS_0_55 ", " ENGRAM_REGISTERS_56_63
#define ENGRAM_IN_OUT_64 ENGRAM_IN_OUT_32(0), ENGRAM_IN_OUT_32(32)
ENGRAM_PRODUCT_OF_SHAPE(128, ENGRAM_REGISTERS_0_63, ENGRAM_IN_OUT_64, 64, 65, 66, 67, 68, 69, 70, 71);
#define ENGRAM_REGISTERS_0_127 ENGRAM_REGISTERS_0_63 ", " ENGRAM_REGISTERS_64_127
#define ENGRAM_IN_OUT_128 ENGRAM_IN_OUT_64, ENGRAM_IN_OUT_32(64), ENGRAM_IN_OUT_32(96)
ENGRAM_PRODUCT_OF_SHAPE(256, ENGRAM_REGISTERS_0_127, ENGRAM_IN_OUT_128, 128, 129, 130, 131, 132, 133, 134, 135);

#undef ENGRAM_REGISTERS_0_7
#undef ENGRAM_REGISTERS_0_31
#undef ENGRAM_REGISTERS_32_55
#undef ENGRAM_REGISTERS_56_63
#undef ENGRAM_REGISTERS_64_127
#undef ENGRAM_REGISTERS_0_55
#undef ENGRAM_REGISTERS_0_63
#undef ENGRAM_REGISTERS_0_127
#undef ENGRAM_IN_OUT_8
#undef ENGRAM_IN_OUT_32
#undef ENGRAM_IN_OUT_56
#undef ENGRAM_IN_OUT_64
#undef ENGRAM_IN_OUT_128
#undef ENGRAM_PRODUCT_OF_SHAPE

// d = a b, or d += a b: 64 x 16 times 16 x kN, the left operand in shared memory or in registers (FragmentA's order),
// where it can be taken times kSignA, 1 or -1.
template <int kN, Major kMajorA = Major::kK, Major kMajorB = Major::kK>
__device__ inline void multiply(float (&d)[kN / 2], std::uint64_t a, std::uint64_t b, bool accumulate) {
  ProductOfShape<kN>::template run<kMajorA == Major::kMN, kMajorB == Major::kMN>(d, a, b, accumulate);
}
template <int kN, Major kMajorB = Major::kK, int kSignA = 1>
__device__ inline void multiply(float (&d)[kN / 2], const std::uint32_t (&a)[4], std::uint64_t b, bool accumulate) {
  ProductOfShape<kN>::template run<kMajorB == Major::kMN, kSignA>(d, a, b, accumulate);
}

// The opposite of load_matrices<true>: four 8 x 8 tiles of pairs to rows of 16 bytes in shared memory. Lane 8 i + r
// says where column r of tile i goes. Compute capability 9.0 and later.
__device__ inline void store_matrices_transposed(bf16* column, const std::uint32_t (&x)[4]) {
  asm volatile("stmatrix.sync.aligned.m8n8.x4.trans.shared.b16 [%0], {%1, %2, %3, %4};" ::"r"(shared_address(column)),
               "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
               : "memory");
}

// A barrier in shared memory, 8-byte aligned. Phase 0 ends when `arrivals` have been counted and the bytes expected
// have come, then phase 1 begins, and so on; a wait is for the end of a phase of the given parity.
struct SharedBarrier {
  std::uint64_t state;

  // One thread initializes all barriers, then publish_barriers(), then the block meets at __syncthreads().
  __device__ void initialize(int arrivals) {
    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(this)), "r"(arrivals) : "memory");
  }
  __device__ void arrive() {
    asm volatile("mbarrier.arrive.release.cta.shared::cta.b64 _, [%0];" ::"r"(shared_address(this)) : "memory");
  }
  // An arrival that lets the phase wait for `bytes` of copies as well.
  __device__ void arrive_expecting(int bytes) {
    asm volatile("mbarrier.arrive.expect_tx.release.cta.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(this)),
                 "r"(bytes)
                 : "memory");
  }
  __device__ void wait(int parity) {
    asm volatile(
        "{.reg .pred done;\n"
        "again: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 done, [%0], %1;\n"
        "@!done bra again;}" ::"r"(shared_address(this)),
        "r"(parity)
        : "memory");
  }
  // Queues a copy of `bytes` (a multiple of 16, both ends 16-byte aligned) from global memory; it counts here. One
  // thread's call copies all.
  __device__ void copy(void* shared, const void* global, int bytes) {
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     shared_address(shared)),
                 "l"(global), "r"(bytes), "r"(shared_address(this))
                 : "memory");
  }
};
__device__ inline void publish_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// The barriers of a ring in shared memory.
template <int kSlots>
struct RingBarriers {
  SharedBarrier full[kSlots], empty[kSlots];

  // Called by one thread. A slot is full after so many arrivals of writers, empty after so many of readers.
  __device__ void initialize(int writers, int readers) {
    for (int i = 0; i < kSlots; ++i) {
      full[i].initialize(writers);
      empty[i].initialize(readers);
    }
    publish_barriers();
  }
};

// Where a walk is in a ring.
template <int kSlots>
struct RingPlace {
  int slot = 0, parity = 0;

  __device__ void advance() {
    if (++slot < kSlots) return;
    slot = 0;
    parity ^= 1;
  }
};

// What this thread wrote to shared memory becomes visible to products and copies that are issued after the next
// barrier.
__device__ inline void publish_to_products() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Barriers of `threads` threads (whole warps) by number, 1 .. 15: meet() waits until all have arrived, announce()
// arrives without waiting.
__device__ inline void meet(int id, int threads) {
  asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory");
}
__device__ inline void announce(int id, int threads) {
  asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory");
}

// Gives registers of a warpgroup back, or takes what others gave: each thread then has kCount, a multiple of 8.
template <int kCount>
__device__ inline void shrink_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kCount));
}
template <int kCount>
__device__ inline void grow_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kCount));
}

}  // namespace engram
