#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>

#include "kernels/acting/reset_rows/reset_rows.h"
#include "kernels/common/cuda_support.h"
#include "kernels/common/early_launch.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxBlocks = 1024;  // more than run at a time
constexpr int kTensors = 64;      // a launch: as many as its parameters hold

struct ResetLaunch {
  RowTensor tensor[kTensors];
  int count, rows;
  const std::uint8_t* fresh_N;
};

template <typename Word>
__device__ void zero(void* row, std::int64_t bytes) {
  auto* words = static_cast<Word*>(row);
  const std::int64_t count = bytes / static_cast<std::int64_t>(sizeof(Word));
  for (std::int64_t i = threadIdx.x; i < count; i += kThreads) words[i] = Word{};
}

// A block has every gridDim.x-th row. All its flags are read at once, a thread each, so that in the usual case, nothing
// fresh, it has waited for memory only once.
__global__ void __launch_bounds__(kThreads) reset_kernel(const __grid_constant__ ResetLaunch launch) {
  wait_for_previous_kernel();
  const std::int64_t step = gridDim.x;
  for (std::int64_t first = blockIdx.x; first < launch.rows; first += step * kThreads) {
    const std::int64_t end = min(first + step * kThreads, std::int64_t{launch.rows});
    const std::int64_t own = first + threadIdx.x * step;
    if (!__syncthreads_or(own < end && launch.fresh_N[own] != 0)) continue;
    for (std::int64_t row = first; row < end; row += step) {
      if (launch.fresh_N[row] == 0) continue;
      for (int i = 0; i < launch.count; ++i) {
        const std::int64_t bytes = launch.tensor[i].row_bytes;
        void* data = static_cast<unsigned char*>(launch.tensor[i].data) + row * bytes;
        if ((reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(bytes)) % sizeof(uint4) == 0)
          zero<uint4>(data, bytes);
        else
          zero<unsigned>(data, bytes);
      }
    }
  }
}

}  // namespace

void reset_rows(const std::vector<RowTensor>& tensors, const std::uint8_t* fresh_N, int rows, cudaStream_t stream) {
  if (rows < 0) throw std::runtime_error("reset_rows: " + std::to_string(rows) + " rows");
  if (rows == 0) return;
  for (std::size_t begin = 0; begin < tensors.size(); begin += kTensors) {
    ResetLaunch launch{};
    launch.count = static_cast<int>(std::min<std::size_t>(kTensors, tensors.size() - begin));
    launch.rows = rows;
    launch.fresh_N = fresh_N;
    for (int i = 0; i < launch.count; ++i) {
      launch.tensor[i] = tensors[begin + static_cast<std::size_t>(i)];
      const std::int64_t bytes = launch.tensor[i].row_bytes;
      if (bytes < 0 || bytes % 4 != 0)
        throw std::runtime_error("reset_rows: rows of " + std::to_string(bytes) + " bytes");
    }
    const auto blocks = static_cast<unsigned>(std::min(rows, kMaxBlocks));
    launch_early<reset_kernel>(dim3(blocks), dim3(kThreads), 0, stream, "reset_rows", launch);
  }
}

}  // namespace engram
