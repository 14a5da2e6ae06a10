#include <stdexcept>
#include <string>

#include "kernels/block/observation_rows.h"
#include "kernels/block/row_vector.cuh"

namespace engram {
namespace {

constexpr int kThreads = 256;

// One thread for each element of y.
template <typename X, typename T>
__global__ void __launch_bounds__(kThreads) observation_rows_kernel(ObservationRows input, int width, T* y) {
  const unsigned i = blockIdx.x * kThreads + threadIdx.x, row = i / input.stride;
  if (row >= input.rows) return;
  int column = static_cast<int>(i % input.stride), element = 0;
  const X* const x = static_cast<const X*>(input.x) + std::int64_t{row} * width;
  float number = 0.0f;
#pragma unroll
  for (int p = 0; p < kMaxObservationParts; ++p) {
    if (p >= input.parts) break;
    const auto [elements, values] = input.part[p];
    const int each = values > 0 ? values : 1;
    if (column >= 0 && column < elements * each) {
      const auto own = static_cast<float>(x[element + column / each]);
      if (values > 0)
        number = own == static_cast<float>(column % each) ? 1.0f : 0.0f;
      else
        number = sizeof(X) == 1 ? own / 255.0f : own;
    }
    column -= elements * each;
    element += elements;
  }
  y[i] = static_cast<T>(number);
}

}  // namespace

void observation_rows(const ObservationRows& input, void* y, cudaStream_t stream) {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("observation_rows: " + what); };
  if (input.parts < 1 || input.parts > kMaxObservationParts) refuse(std::to_string(input.parts) + " parts");
  std::int64_t columns = 0, width = 0;
  for (int p = 0; p < input.parts; ++p) {
    const auto [elements, values] = input.part[p];
    if (elements < 1 || values < 0)
      refuse("a part of " + std::to_string(elements) + " elements of " + std::to_string(values) + " values");
    columns += input.part[p].columns();
    width += elements;
  }
  if (input.rows < 1 || columns > input.stride || input.rows * input.stride > INT32_MAX)
    refuse(std::to_string(input.rows) + " rows of " + std::to_string(columns) + " columns as " +
           std::to_string(input.stride));
  const auto blocks = static_cast<unsigned>((input.rows * input.stride + kThreads - 1) / kThreads);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    if (input.bytes)
      observation_rows_kernel<std::uint8_t>
          <<<blocks, kThreads, 0, stream>>>(input, static_cast<int>(width), static_cast<T*>(y));
    else
      observation_rows_kernel<float>
          <<<blocks, kThreads, 0, stream>>>(input, static_cast<int>(width), static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "observation_rows");
}

}  // namespace engram
