#include <stdexcept>
#include <string>

#include "kernels/block/observation_rows.h"
#include "kernels/block/row_vector.cuh"

namespace engram {
namespace {

constexpr int kThreads = 256;

// What stands in a column of y. `column`: 0 .. input.stride - 1.
template <typename X>
__device__ float number_at(const ObservationRows& input, const X* x, const float* beside, int column) {
  int element = 0;
  float number = 0.0f;
#pragma unroll
  for (int p = 0; p < kMaxObservationParts; ++p) {
    if (p >= input.parts) break;
    const auto [elements, values] = input.part[p];
    const int each = values > 0 ? values : 1;
    const bool is_beside = p >= input.parts - input.beside_parts;
    if (p == input.parts - input.beside_parts) element = 0;
    if (column >= 0 && column < elements * each) {
      const int at = element + column / each;
      const auto own = is_beside ? beside[at] : static_cast<float>(x[at]);
      if (values > 0)
        number = own == static_cast<float>(column % each) ? 1.0f : 0.0f;
      else
        number = sizeof(X) == 1 && !is_beside ? own / 255.0f : own;
    }
    column -= elements * each;
    element += elements;
  }
  return number;
}

// One thread for a vector of a row of y.
template <typename X, typename T>
__global__ void __launch_bounds__(kThreads)
    observation_rows_kernel(ObservationRows input, int width, int beside_width, T* y) {
  const unsigned vectors = input.stride / kVector, i = blockIdx.x * kThreads + threadIdx.x, row = i / vectors;
  if (row >= input.rows) return;
  const int column = static_cast<int>(i % vectors) * kVector;
  const X* const x = static_cast<const X*>(input.x) + std::int64_t{row} * width;
  const float* const beside = input.beside + std::int64_t{row} * beside_width;
  RowVector numbers;
  if (input.parts == 1 && input.part[0].values == 0) {  // quantities alone need no search
#pragma unroll
    for (int j = 0; j < kVector; ++j) {
      const float own = column + j < width ? static_cast<float>(x[column + j]) : 0.0f;
      numbers.x[j] = sizeof(X) == 1 ? own / 255.0f : own;
    }
  } else {
#pragma unroll
    for (int j = 0; j < kVector; ++j) numbers.x[j] = number_at(input, x, beside, column + j);
  }
  store_vector(y + std::int64_t{i} * kVector, numbers);
}

}  // namespace

void observation_rows(const ObservationRows& input, void* y, cudaStream_t stream) {
  const auto refuse = [](const std::string& what) { throw std::runtime_error("observation_rows: " + what); };
  if (input.parts < 1 || input.parts > kMaxObservationParts) refuse(std::to_string(input.parts) + " parts");
  if (input.beside_parts < 0 || input.beside_parts >= input.parts)
    refuse(std::to_string(input.beside_parts) + " of " + std::to_string(input.parts) + " parts beside the observation");
  std::int64_t columns = 0;
  int width = 0, beside_width = 0;
  for (int p = 0; p < input.parts; ++p) {
    const auto [elements, values] = input.part[p];
    if (elements < 1 || values < 0)
      refuse("a part of " + std::to_string(elements) + " elements of " + std::to_string(values) + " values");
    columns += input.part[p].columns();
    (p < input.parts - input.beside_parts ? width : beside_width) += elements;
  }
  if (input.rows < 1 || columns > input.stride || input.stride % kVector != 0 || input.rows * input.stride > INT32_MAX)
    refuse(std::to_string(input.rows) + " rows of " + std::to_string(columns) + " columns as " +
           std::to_string(input.stride));
  const auto blocks = static_cast<unsigned>((input.rows * (input.stride / kVector) + kThreads - 1) / kThreads);
  dispatch_dtype(input.dtype, [&](auto element) {
    using T = decltype(element);
    if (input.bytes)
      observation_rows_kernel<std::uint8_t>
          <<<blocks, kThreads, 0, stream>>>(input, width, beside_width, static_cast<T*>(y));
    else
      observation_rows_kernel<float><<<blocks, kThreads, 0, stream>>>(input, width, beside_width, static_cast<T*>(y));
  });
  check_cuda(cudaGetLastError(), "observation_rows");
}

}  // namespace engram
