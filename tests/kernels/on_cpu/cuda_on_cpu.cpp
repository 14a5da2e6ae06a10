#include "tests/kernels/on_cpu/cuda_on_cpu.h"

#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdlib>
#include <deque>
#include <exception>
#include <utility>

#undef cudaLaunchKernelEx
#undef cudaFuncSetAttribute

namespace engram::on_cpu {
namespace {

namespace context = boost::context;

constexpr std::size_t kStackBytes = 64 << 10;

struct Fiber {
  Thread thread;
  dim3 index, block;       // threadIdx, blockIdx
  context::fiber resumed;  // where the thread goes on
  bool ended = false;
};

// One grid runs at a time: tests hold their GPU.
Fiber* at_work = nullptr;
context::fiber scheduler;
std::deque<Block> blocks;  // of the cluster
Barrier barrier_of_cluster;
std::exception_ptr failure;

void take_turn() { scheduler = std::move(scheduler).resume(); }

void begin(Fiber& fiber, const std::function<void()>& kernel) {
  fiber.resumed = context::fiber(std::allocator_arg, context::fixedsize_stack(kStackBytes), [&](context::fiber&& from) {
    scheduler = std::move(from);
    try {
      kernel();
    } catch (const context::detail::forced_unwind&) {
      throw;  // the grid has failed, and this thread's stack is taken down
    } catch (...) {
      failure = std::current_exception();
    }
    fiber.ended = true;
    fiber.thread.own->barrier.leave();
    on_cpu::warp().all.leave();
    barrier_of_cluster.leave();
    return std::move(scheduler);
  });
}

void run_cluster(unsigned first_block, unsigned cluster, dim3 grid, unsigned threads, std::size_t shared_bytes,
                 const std::function<void()>& kernel) {
  constexpr std::size_t kAlignment = 1024;
  gridDim = grid, blockDim = dim3(threads);
  blocks.clear();
  barrier_of_cluster = Barrier(static_cast<int>(cluster * threads));
  std::vector<Fiber> fibers(cluster * threads);
  for (unsigned b = 0; b < cluster; ++b) {
    Block& block = blocks.emplace_back();
    block.barrier = Barrier(static_cast<int>(threads));
    block.memory.assign(shared_bytes + kAlignment, 0xff);
    const auto begin_of_memory = reinterpret_cast<std::uintptr_t>(block.memory.data());
    block.shared = block.memory.data() + (kAlignment - begin_of_memory % kAlignment) % kAlignment;
    block.warps.resize((threads + 31) / 32);
    if (threads % 32 != 0) block.warps.back().all = Barrier(static_cast<int>(threads % 32));
    const unsigned index = first_block + b;
    for (unsigned t = 0; t < threads; ++t) {
      Fiber& fiber = fibers[b * threads + t];
      fiber.index = dim3(t, 0, 0);
      fiber.block = dim3(index % grid.x, index / grid.x % grid.y, index / grid.x / grid.y);
      fiber.thread.own = &block;
      begin(fiber, kernel);
    }
  }
  std::size_t left = fibers.size();
  for (std::size_t round = 0; left > 0; ++round) {
    left = 0;
    for (std::size_t i = 0; i < fibers.size(); ++i) {
      // An odd stride meets each of a number of threads that is no multiple of it once.
      Fiber& fiber = fibers[(37 * i + 11 * round + 5) % fibers.size()];
      if (fiber.ended) continue;
      at_work = &fiber;
      threadIdx = fiber.index, blockIdx = fiber.block;
      fiber.resumed = std::move(fiber.resumed).resume();
      left += !fiber.ended;
    }
    if (failure != nullptr) std::rethrow_exception(std::exchange(failure, nullptr));
  }
}

}  // namespace

Thread& now() { return at_work->thread; }
Barrier& cluster_barrier() { return barrier_of_cluster; }
Warp& warp() { return now().own->warps[threadIdx.x / 32]; }
int lane() { return static_cast<int>(threadIdx.x % 32); }
unsigned char* shared_memory_of(unsigned rank) { return blocks.at(rank).shared; }

void Barrier::wait() {
  const unsigned generation = generation_;
  if (++arrived_ == threads_) return open();
  while (generation_ == generation) take_turn();
}
void Barrier::leave() {
  if (--threads_ > 0 && arrived_ == threads_) open();
}

Barrier& Warp::of(unsigned mask) {
  if (mask == 0xffffffffu) return all;
  return some.try_emplace(mask, std::popcount(mask)).first->second;
}

void run(dim3 grid, dim3 threads, std::size_t shared_bytes, unsigned cluster, const std::function<void()>& kernel) {
  if (threads.y != 1 || threads.z != 1) throw std::runtime_error("kernels on a CPU have blocks of one dimension");
  const unsigned count = grid.x * grid.y * grid.z;
  for (unsigned first = 0; first < count; first += cluster)
    run_cluster(first, cluster, grid, threads.x, shared_bytes, kernel);
}

}  // namespace engram::on_cpu

// The runtime: memory is the host's, the device an H100 in what is asked of it.
extern "C" {
cudaError_t cudaMalloc(void** memory, std::size_t bytes) {
  constexpr std::size_t kAlignment = 256;
  *memory = std::aligned_alloc(kAlignment, (bytes + kAlignment - 1) / kAlignment * kAlignment);
  return *memory != nullptr ? cudaSuccess : cudaErrorMemoryAllocation;
}
cudaError_t cudaFree(void* memory) {
  std::free(memory);
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind) {
  if (bytes > 0) std::memcpy(to, from, bytes);
  return cudaSuccess;
}
cudaError_t cudaMemset(void* memory, int value, std::size_t bytes) {
  if (bytes > 0) std::memset(memory, value, bytes);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() { return cudaSuccess; }
cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
cudaError_t cudaGetLastError() { return cudaSuccess; }
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return cudaSuccess;
}
cudaError_t cudaGetDeviceCount(int* count) {
  *count = 1;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int) {
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = 132;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = 9;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = engram::on_cpu::kMostSharedBytes;
      return cudaSuccess;
    default:
      return cudaErrorNotSupported;
  }
}
// There are no graphs.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t*, unsigned) { return cudaErrorNotSupported; }
cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaStreamBeginCapture(cudaStream_t, cudaStreamCaptureMode) { return cudaErrorNotSupported; }
cudaError_t cudaStreamEndCapture(cudaStream_t, cudaGraph_t*) { return cudaErrorNotSupported; }
cudaError_t cudaGraphInstantiate(cudaGraphExec_t*, cudaGraph_t, unsigned long long) { return cudaErrorNotSupported; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaErrorNotSupported; }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaErrorNotSupported; }
const char* cudaGetErrorName(cudaError_t) { return "cudaError"; }
const char* cudaGetErrorString(cudaError_t) { return "an error of a kernel on a CPU"; }
}
