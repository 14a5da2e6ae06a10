#include "kernels/swiglu/stage.cuh"

namespace engram {
namespace swiglu {
namespace {

constexpr int kThreads = 256;

// One thread for each element of the packed weights.
template <int kP>
__global__ void __launch_bounds__(kThreads) pack_kernel(SwiGluWeightsInput input, bf16* __restrict__ weights) {
  constexpr int kStage = sizeof(Stage<kP>) / sizeof(bf16), kGateUp = GateUpTile<kP>::kElements;
  const int i = blockIdx.x * kThreads + threadIdx.x, stage = i / kStage, element = i % kStage;
  if (stage >= input.inner / kUnits) return;
  float x = 0;
  if (element < kGateUp) {
    const int row = GateUpTile<kP>::row_of(element), channel = GateUpTile<kP>::column_of(element);
    const float* const matrix = row < kUnits ? input.gate_ID : input.up_ID;
    if (row < 2 * kUnits && channel < input.width) x = matrix[(stage * kUnits + row % kUnits) * input.width + channel];
  } else {
    const int channel = DownTile<kP>::row_of(element - kGateUp), unit = DownTile<kP>::column_of(element - kGateUp);
    if (channel < input.width) x = input.down_DI[channel * input.inner + stage * kUnits + unit];
  }
  weights[i] = __float2bfloat16(x);
}

}  // namespace
}  // namespace swiglu

std::size_t fused_swiglu_weight_bytes(int stride, int inner) {
  return swiglu::dispatch_channels(
      stride, [&](auto channels) { return inner / swiglu::kUnits * sizeof(swiglu::Stage<decltype(channels)::value>); });
}

void fused_swiglu_pack(const SwiGluWeightsInput& input, void* weights, cudaStream_t stream) {
  using namespace swiglu;
  check_shape(input.width, input.stride, input.inner);
  const auto elements = fused_swiglu_weight_bytes(input.stride, input.inner) / sizeof(bf16);
  dispatch_channels(input.stride, [&](auto channels) {
    pack_kernel<decltype(channels)::value>
        <<<static_cast<unsigned>((elements + kThreads - 1) / kThreads), kThreads, 0, stream>>>(
            input, static_cast<bf16*>(weights));
  });
  check_cuda(cudaGetLastError(), "fused SwiGLU weights");
}

}  // namespace engram
