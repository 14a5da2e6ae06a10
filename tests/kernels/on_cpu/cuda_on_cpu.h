// Kernels on a CPU, so that tests see their launches where there is no GPU: threads of a block are fibers that take
// turns, in another order each round, and wait for each other at barriers; what blocks share begins as NaN; blocks, or
// clusters of blocks, follow one another. translate.py makes C++ of kernels' sources, and this header stands before
// each.
//
// Seen: wrong places, missing barriers between turns, copies that are read before they have come, tiles that are not
// aligned. Not seen: what two threads do between the same two barriers in another order than turns allow, and time.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <vector_functions.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

namespace engram::on_cpu {

// Of so many threads. One that has ended is not waited for.
class Barrier {
 public:
  explicit Barrier(int threads = 0) : threads_(threads) {}
  void wait();
  void leave();

 private:
  void open() { arrived_ = 0, ++generation_; }

  int threads_, arrived_ = 0;
  unsigned generation_ = 0;
};

// What the lanes of a warp tell each other.
struct Warp {
  Barrier all{32};
  std::map<unsigned, Barrier> some;  // by mask
  const void* row[32];
  std::uint32_t a[32][4], b[32][2];
  std::uint64_t word[32];

  Barrier& of(unsigned mask);
};

struct Block {
  Barrier barrier;
  std::vector<unsigned char> memory;  // shared, and dynamic
  unsigned char* shared = nullptr;
  std::vector<Warp> warps;
  bool vote = false;
};

struct Copy {
  void* to;
  const void* from;  // null: zeros
  std::size_t bytes;
};

struct Thread {
  Block* own = nullptr;
  std::vector<std::vector<Copy>> groups;  // committed, the oldest first
  std::vector<Copy> open;
};

Thread& now();                                   // the thread at work
Barrier& cluster_barrier();                      // of its cluster
unsigned char* shared_memory_of(unsigned rank);  // of a block of its cluster
inline unsigned char* shared_memory() { return now().own->shared; }
Warp& warp();
int lane();

// Runs all threads of a grid to their ends.
void run(dim3 grid, dim3 threads, std::size_t shared_bytes, unsigned cluster, const std::function<void()>& kernel);

// kernel<<<grid, threads, bytes, stream>>>(x, y) is Start(grid, threads, bytes, stream)([&] { kernel(x, y); }).
class Start {
 public:
  Start(dim3 grid, dim3 threads, std::size_t shared_bytes = 0, cudaStream_t = nullptr)
      : grid_(grid), threads_(threads), shared_bytes_(shared_bytes) {}
  void operator()(const std::function<void()>& kernel) const { run(grid_, threads_, shared_bytes_, 1, kernel); }

 private:
  dim3 grid_, threads_;
  std::size_t shared_bytes_;
};

template <class... Parameters, class... Arguments>
cudaError_t launch_kernel_ex(const cudaLaunchConfig_t* config, void (*kernel)(Parameters...),
                             const Arguments&... arguments) {
  unsigned cluster = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i)
    if (config->attrs[i].id == cudaLaunchAttributeClusterDimension) cluster = config->attrs[i].val.clusterDim.x;
  run(config->gridDim, config->blockDim, config->dynamicSmemBytes, cluster, [&] { kernel(arguments...); });
  return cudaSuccess;
}

constexpr int kMostSharedBytes = 227 << 10;  // of a block of a GPU of 9.0
template <class Kernel>
cudaError_t set_attribute(Kernel, cudaFuncAttribute, int bytes) {
  return bytes <= kMostSharedBytes ? cudaSuccess : cudaErrorInvalidValue;
}

// What `value` is in lane `from` of those in the mask, which all come here.
template <class T>
T shuffle(unsigned mask, T value, int from) {
  static_assert(sizeof(T) <= sizeof(std::uint64_t));
  Warp& own = warp();
  std::memcpy(&own.word[lane()], &value, sizeof value);
  own.of(mask).wait();
  std::memcpy(&value, &own.word[from], sizeof value);
  own.of(mask).wait();
  return value;
}

}  // namespace engram::on_cpu

// Of the thread at work.
inline dim3 threadIdx, blockIdx, gridDim, blockDim;

#undef __device__
#define __device__
#undef __global__
#define __global__
#undef __forceinline__
#define __forceinline__ inline
#undef __noinline__
#define __noinline__
#undef __launch_bounds__
#define __launch_bounds__(...)
#undef __grid_constant__
#define __grid_constant__
#undef __shared__
#define __shared__ static  // of kernels whose blocks follow one another
#define __sincosf sincosf
#define cudaLaunchKernelEx engram::on_cpu::launch_kernel_ex
#define cudaFuncSetAttribute engram::on_cpu::set_attribute

inline void __syncthreads() { engram::on_cpu::now().own->barrier.wait(); }
inline void __syncwarp(unsigned mask = 0xffffffffu) { engram::on_cpu::warp().of(mask).wait(); }
template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32) {
  const int lane = engram::on_cpu::lane();
  return engram::on_cpu::shuffle(mask, value, lane / width * width + from % width);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int distance) {
  return engram::on_cpu::shuffle(mask, value, engram::on_cpu::lane() ^ distance);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, int distance) {
  return engram::on_cpu::shuffle(mask, value, std::min(engram::on_cpu::lane() + distance, 31));
}
inline int __all_sync(unsigned mask, int says) {
  engram::on_cpu::Warp& warp = engram::on_cpu::warp();
  warp.word[engram::on_cpu::lane()] = says != 0;
  warp.of(mask).wait();
  bool all = true;
  for (int i = 0; i < 32; ++i) all = all && ((mask >> i & 1) == 0 || warp.word[i] != 0);
  warp.of(mask).wait();
  return all;
}
inline int __syncthreads_or(int says) {
  engram::on_cpu::Block& block = *engram::on_cpu::now().own;
  if (says != 0) block.vote = true;
  block.barrier.wait();
  const bool vote = block.vote;
  block.barrier.wait();
  block.vote = false;
  block.barrier.wait();  // before the next vote
  return vote;
}
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
using std::isfinite;
inline void sincospif(float x, float* sine, float* cosine) {
  const double angle = 3.141592653589793 * x;
  *sine = static_cast<float>(std::sin(angle)), *cosine = static_cast<float>(std::cos(angle));
}
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
template <class A, class B>
constexpr std::common_type_t<A, B> max(A a, B b) {
  return a < b ? b : a;
}
template <class A, class B>
constexpr std::common_type_t<A, B> min(A a, B b) {
  return b < a ? b : a;
}
inline float max(float a, float b) { return std::fmax(a, b); }
inline float min(float a, float b) { return std::fmin(a, b); }
template <class T>
T atomicMin(T* p, T x) {
  return std::exchange(*p, std::min(*p, x));
}
