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

template <typename T, bool kPack>
__global__ void __launch_bounds__(kThreads) pack_kernel(PackedMatrix packed) {
  const int i = blockIdx.x * kThreads + threadIdx.x;
  if (i >= packed.rows * packed.columns) return;
  float* const own = find(packed, i / packed.columns, i % packed.columns);
  T* const element = static_cast<T*>(packed.data) + i;
  if constexpr (kPack)
    *element = static_cast<T>(own ? *own : 0.0f);
  else if (own)
    *own = static_cast<float>(*element);
}

template <bool kPack>
void launch(const PackedMatrix& packed, cudaStream_t stream) {
  if (packed.rows < 1 || packed.columns < 1 || packed.segments < 1 || packed.segments > kMaxPackSegments ||
      std::int64_t{packed.rows} * packed.columns > 1 << 30)
    throw std::runtime_error("pack: " + std::to_string(packed.segments) + " segments in " +
                             std::to_string(packed.rows) + " x " + std::to_string(packed.columns));
  const int blocks = (packed.rows * packed.columns + kThreads - 1) / kThreads;
  dispatch_dtype(packed.dtype,
                 [&](auto element) { pack_kernel<decltype(element), kPack><<<blocks, kThreads, 0, stream>>>(packed); });
  check_cuda(cudaGetLastError(), kPack ? "pack" : "unpack");
}

}  // namespace

void pack(const PackedMatrix& packed, cudaStream_t stream) { launch<true>(packed, stream); }
void unpack(const PackedMatrix& packed, cudaStream_t stream) { launch<false>(packed, stream); }

}  // namespace engram
