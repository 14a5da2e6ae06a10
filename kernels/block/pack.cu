#include <stdexcept>
#include <string>

#include "kernels/block/pack.h"

namespace engram {
namespace {

constexpr int kThreads = 256;

// The float that stands at (row, column) of the packed matrix; null in the padding.
__device__ float* find(const PackedMatrix& packed, int row, int column) {
  for (int s = 0; s < packed.segments; ++s) {
    const PackSegment& segment = packed.segment[s];
    if (row < segment.first_row || row >= segment.first_row + segment.rows.size()) continue;
    const int r = segment.rows.index(row - segment.first_row), c = segment.columns.index(column);
    if (r >= 0 && c >= 0) return segment.matrix + static_cast<std::int64_t>(r) * segment.columns.count + c;
  }
  return nullptr;
}

struct Launch {
  PackedMatrix matrix[kMaxPackMatrices];
  int first_block[kMaxPackMatrices];
  int count;
};

template <typename T, bool kPack>
__device__ void move(const PackedMatrix& packed, int i) {
  float* const own = find(packed, i / packed.columns, i % packed.columns);
  T* const element = static_cast<T*>(packed.data) + i;
  if constexpr (kPack)
    *element = static_cast<T>(own ? *own : 0.0f);
  else if (own)
    *own = static_cast<float>(*element);
}

template <bool kPack>
__global__ void __launch_bounds__(kThreads) pack_kernel(const __grid_constant__ Launch launch) {
  const int block = static_cast<int>(blockIdx.x);
  int own = 0;
  for (int m = 1; m < launch.count; ++m)
    if (block >= launch.first_block[m]) own = m;
  const PackedMatrix& packed = launch.matrix[own];
  const int i = (block - launch.first_block[own]) * kThreads + threadIdx.x;
  if (i >= packed.rows * packed.columns) return;
  if (packed.dtype == Dtype::kFloat32)
    move<float, kPack>(packed, i);
  else
    move<__nv_bfloat16, kPack>(packed, i);
}

template <bool kPack>
void run(const std::vector<PackedMatrix>& matrices, cudaStream_t stream) {
  if (matrices.empty() || matrices.size() > kMaxPackMatrices)
    throw std::runtime_error("pack: " + std::to_string(matrices.size()) + " matrices");
  Launch launch{};
  std::int64_t blocks = 0;
  for (const PackedMatrix& packed : matrices) {
    if (packed.rows < 1 || packed.columns < 1 || packed.segments < 1 || packed.segments > kMaxPackSegments ||
        std::int64_t{packed.rows} * packed.columns > 1 << 30)
      throw std::runtime_error("pack: " + std::to_string(packed.segments) + " segments in " +
                               std::to_string(packed.rows) + " x " + std::to_string(packed.columns));
    launch.matrix[launch.count] = packed;
    launch.first_block[launch.count++] = static_cast<int>(blocks);
    blocks += (std::int64_t{packed.rows} * packed.columns + kThreads - 1) / kThreads;
  }
  pack_kernel<kPack><<<static_cast<unsigned>(blocks), kThreads, 0, stream>>>(launch);
  check_cuda(cudaGetLastError(), kPack ? "pack" : "unpack");
}

}  // namespace

void pack(const std::vector<PackedMatrix>& packed, cudaStream_t stream) { run<true>(packed, stream); }
void unpack(const std::vector<PackedMatrix>& packed, cudaStream_t stream) { run<false>(packed, stream); }

}  // namespace engram
