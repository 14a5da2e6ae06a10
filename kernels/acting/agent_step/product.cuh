// Matrix products of agent_step: packed weights times the activations of up to 64 environments, and what the blocks of
// a cluster need to share them.
#pragma once

#include <cstdint>

#include "kernels/acting/agent_step/layout.h"
#include "kernels/common/tensor_core.cuh"

namespace engram {

constexpr int kStepWarps = kStepThreads / 32;

__device__ inline int warp_id() { return threadIdx.x / 32; }

__device__ inline float warp_sum(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x += __shfl_xor_sync(~0u, x, i);
  return x;
}
__device__ inline float warp_max(float x) {
#pragma unroll
  for (int i = 16; i > 0; i /= 2) x = fmaxf(x, __shfl_xor_sync(~0u, x, i));
  return x;
}

// Clusters of one block are what compute capability 8 has. All threads arrive and wait in turn; together the two are
// at least __syncthreads().
template <int kCluster>
__device__ inline void cluster_arrive() {
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster > 1) asm volatile("barrier.cluster.arrive.release;" ::: "memory");
#endif
}
template <int kCluster>
__device__ inline void cluster_wait() {
  if constexpr (kCluster == 1) __syncthreads();
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster > 1) asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// Where `own`, a place in this block's shared memory, lies in that of the cluster's block `rank`.
template <int kCluster, typename X>
__device__ inline X* peer(X* own, int rank) {
#if __CUDA_ARCH__ >= 900
  if constexpr (kCluster > 1) {
    std::uint64_t address;
    asm("mapa.u64 %0, %1, %2;" : "=l"(address) : "l"(own), "r"(rank));
    return reinterpret_cast<X*>(address);
  }
#endif
  return own;
}

constexpr int kTileElements = kStepTile * kStepTile;

template <typename T>
__device__ inline void load_tile(FragmentA<kPlanes<T>>& a, const bf16* tile) {
#pragma unroll
  for (int p = 0; p < kPlanes<T>; ++p) {
    const uint4 x = __ldg(reinterpret_cast<const uint4*>(tile + p * kTileElements) + lane_id());
    a.plane[p][0] = x.x, a.plane[p][1] = x.y, a.plane[p][2] = x.z, a.plane[p][3] = x.w;
  }
}

// For kStreams matrices at once, Y_s = W_s X: `outputs` x `inputs` tiles, tile (m, k) of a matrix m * pitch + k tiles
// after its first; X(k, n) = operand[n * stride + k], with columns in tiles of 8 of which an even number is stored.
// A warp takes 16 outputs of 16 columns at a time, warp `first_warp` the first. The first kAhead tiles are fetched
// before ready(), which every thread calls once and after which the operand is there. Then store(m, n, sum), sum an
// Accumulator [kStreams], for every tile of Y.
template <typename T, int kStreams, int kAhead = kPlanes<T> == 1 ? 8 / kStreams : 2 / kStreams, typename Ready,
          typename Store>
__device__ inline void multiply(const bf16* const (&first)[kStreams], int outputs, int inputs, int pitch,
                                const T* operand, int stride, int column_tiles, const Ready& ready, const Store& store,
                                int first_warp = 0) {
  constexpr int kElements = kPlanes<T> * kTileElements;
  FragmentA<kPlanes<T>> a[kStreams][kAhead];
  const auto fetch = [&](int m, int k, int slot) {
#pragma unroll
    for (int s = 0; s < kStreams; ++s)
      load_tile<T>(a[s][slot], first[s] + static_cast<std::int64_t>(m * pitch + k) * kElements);
  };
  const auto fetch_first = [&](int m) {
#pragma unroll
    for (int j = 0; j < kAhead; ++j)
      if (j < inputs) fetch(m, j, j);
  };

  const int items = outputs * ((column_tiles + 1) / 2);
  const int first_item = (warp_id() - first_warp) & (kStepWarps - 1);
  if (first_item < items) fetch_first(first_item % outputs);
  ready();
  for (int item = first_item; item < items; item += kStepWarps) {
    const int m = item % outputs, n = item / outputs * 2;
    if (item != first_item) fetch_first(m);
    Accumulator sum[2][kStreams] = {};
    for (int begin = 0; begin < inputs; begin += kAhead)
#pragma unroll
      for (int j = 0; j < kAhead; ++j) {
        const int k = begin + j;
        if (k >= inputs) break;
        FragmentB<kPlanes<T>> b[2];
        load_b(b, operand + n * 8 * stride + k * kStepTile, stride);
#pragma unroll
        for (int s = 0; s < kStreams; ++s) {
          multiply_add(sum[0][s], a[s][j], b[0]);
          if (n + 1 < column_tiles) multiply_add(sum[1][s], a[s][j], b[1]);
        }
        if (k + kAhead < inputs) fetch(m, k + kAhead, j);
      }
    store(m, n, sum[0]);
    if (n + 1 < column_tiles) store(m, n + 1, sum[1]);
  }
}

}  // namespace engram
