#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "kernels/block/swiglu/stage.cuh"

namespace engram {
namespace swiglu {
namespace {

constexpr int kThreads = 256;

struct PackLaunch {
  SwiGluPacking packing[kSwiGluPackingsOfLaunch];
};
static_assert(sizeof(PackLaunch) <= 4096, "more than a launch's parameters hold");

// One thread for each element of the packed weights; blockIdx.y: whose.
template <int kP>
__global__ void __launch_bounds__(kThreads) pack_kernel(const __grid_constant__ PackLaunch launch) {
  constexpr int kStage = sizeof(Stage<kP>) / sizeof(bf16), kGateUp = GateUpTile<kP>::kElements;
  const SwiGluPacking& packing = launch.packing[blockIdx.y];
  const int i = blockIdx.x * kThreads + threadIdx.x, stage = i / kStage, element = i % kStage;
  if (stage >= packing.inner / kUnits) return;
  float x = 0;
  if (element < kGateUp) {
    const int row = GateUpTile<kP>::row_of(element), channel = GateUpTile<kP>::column_of(element);
    const float* const matrix = row < kUnits ? packing.gate_ID : packing.up_ID;
    if (row < 2 * kUnits && channel < packing.width)
      x = matrix[(stage * kUnits + row % kUnits) * packing.width + channel];
  } else {
    const int channel = DownTile<kP>::row_of(element - kGateUp), unit = DownTile<kP>::column_of(element - kGateUp);
    if (channel < packing.width) x = packing.down_DI[channel * packing.inner + stage * kUnits + unit];
  }
  static_cast<bf16*>(packing.weights)[i] = __float2bfloat16(x);
}

}  // namespace
}  // namespace swiglu

std::size_t fused_swiglu_weight_bytes(int stride, int inner) {
  return swiglu::dispatch_channels(
      stride, [&](auto channels) { return inner / swiglu::kUnits * sizeof(swiglu::Stage<decltype(channels)::value>); });
}

void fused_swiglu_pack(const std::vector<SwiGluPacking>& packings, cudaStream_t stream) {
  using namespace swiglu;
  for (const SwiGluPacking& packing : packings) {
    check_shape(packing.width, packing.stride, packing.inner);
    if (packing.stride != packings[0].stride)
      throw std::runtime_error("fused SwiGLU weights: strides of " + std::to_string(packing.stride) + " and " +
                               std::to_string(packings[0].stride));
  }
  for (std::size_t begin = 0; begin < packings.size(); begin += kSwiGluPackingsOfLaunch) {
    PackLaunch launch{};
    const std::size_t count = std::min<std::size_t>(kSwiGluPackingsOfLaunch, packings.size() - begin);
    std::size_t elements = 0;  // of the largest
    for (std::size_t i = 0; i < count; ++i) {
      const SwiGluPacking& packing = launch.packing[i] = packings[begin + i];
      elements = std::max(elements, fused_swiglu_weight_bytes(packing.stride, packing.inner) / sizeof(bf16));
    }
    const dim3 grid(static_cast<unsigned>((elements + kThreads - 1) / kThreads), static_cast<unsigned>(count));
    dispatch_channels(packings[0].stride, [&](auto channels) {
      pack_kernel<decltype(channels)::value><<<grid, kThreads, 0, stream>>>(launch);
    });
    check_cuda(cudaGetLastError(), "fused SwiGLU weights");
  }
}

}  // namespace engram
