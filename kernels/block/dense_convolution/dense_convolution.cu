#include <stdexcept>
#include <string>

#include "kernels/block/dense_convolution/dense_convolution.h"
#include "kernels/common/cuda_support.h"

namespace engram {
namespace {

constexpr int kThreads = 128;

// One thread for each element of the matrix, then one for each element of the bias.
__global__ void __launch_bounds__(kThreads)
    dense_kernel(ConvolutionShape shape, int rows, int columns, int output_width, int places, const float* weight,
                 const float* bias, float* dense_weight, float* dense_bias) {
  const int index = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  if (index >= rows * columns) {
    const int row = index - rows * columns;
    if (row < rows) dense_bias[row] = bias[row / places];
    return;
  }
  const int row = index / columns, column = index % columns;
  const int c = row / places, i = row % places / output_width, j = row % output_width;
  const int m = column / (shape.height * shape.width), u = column / shape.width % shape.height - i,
            v = column % shape.width - j;
  const bool inside = u >= 0 && u < shape.kernel_height && v >= 0 && v < shape.kernel_width;
  dense_weight[index] =
      inside ? weight[((c * shape.channels + m) * shape.kernel_height + u) * shape.kernel_width + v] : 0;
}

// One thread for each element of the kernel, then one for each element of the bias.
__global__ void __launch_bounds__(kThreads)
    dense_backward_kernel(ConvolutionShape shape, int columns, int output_width, int places,
                          const float* d_dense_weight, const float* d_dense_bias, float* d_weight, float* d_bias) {
  const int index = static_cast<int>(blockIdx.x) * kThreads + static_cast<int>(threadIdx.x);
  const int elements = shape.kernel_height * shape.kernel_width, weights = shape.outputs * shape.channels * elements;
  float sum = 0;
  if (index >= weights) {
    const int c = index - weights;
    if (c >= shape.outputs) return;
    for (int place = 0; place < places; ++place) sum += d_dense_bias[c * places + place];
    d_bias[c] = sum;
    return;
  }
  const int c = index / (shape.channels * elements), m = index / elements % shape.channels,
            u = index % elements / shape.kernel_width, v = index % shape.kernel_width;
  for (int place = 0; place < places; ++place) {
    const int i = place / output_width, j = place % output_width;
    sum += d_dense_weight[(c * places + place) * columns + (m * shape.height + i + u) * shape.width + j + v];
  }
  d_weight[index] = sum;
}

void check(const ConvolutionShape& shape) {
  const auto product = [](auto... factors) { return (std::int64_t{1} * ... * factors); };
  const bool positive = shape.outputs > 0 && shape.channels > 0 && shape.kernel_height > 0 && shape.kernel_width > 0 &&
                        shape.output_height() > 0 && shape.output_width() > 0;
  constexpr std::int64_t kMostSide = 32768;
  if (!positive || product(shape.outputs, shape.output_height(), shape.output_width()) > kMostSide ||
      product(shape.channels, shape.height, shape.width) > kMostSide)
    throw std::runtime_error("dense_convolution: an image of " + std::to_string(shape.channels) + " x " +
                             std::to_string(shape.height) + " x " + std::to_string(shape.width) + ", " +
                             std::to_string(shape.outputs) + " kernels of " + std::to_string(shape.kernel_height) +
                             " x " + std::to_string(shape.kernel_width));
}

unsigned blocks_of(int threads) { return static_cast<unsigned>((threads + kThreads - 1) / kThreads); }

}  // namespace

void dense_convolution(const ConvolutionShape& shape, const float* weight, const float* bias, float* dense_weight,
                       float* dense_bias, cudaStream_t stream) {
  check(shape);
  const int rows = shape.rows(), columns = shape.columns();
  dense_kernel<<<blocks_of(rows * (columns + 1)), kThreads, 0, stream>>>(
      shape, rows, columns, shape.output_width(), rows / shape.outputs, weight, bias, dense_weight, dense_bias);
  check_cuda(cudaGetLastError(), "dense_convolution");
}

void dense_convolution_backward(const ConvolutionShape& shape, const float* d_dense_weight, const float* d_dense_bias,
                                float* d_weight, float* d_bias, cudaStream_t stream) {
  check(shape);
  const int elements = shape.outputs * shape.channels * shape.kernel_height * shape.kernel_width;
  dense_backward_kernel<<<blocks_of(elements + shape.outputs), kThreads, 0, stream>>>(
      shape, shape.columns(), shape.output_width(), shape.rows() / shape.outputs, d_dense_weight, d_dense_bias,
      d_weight, d_bias);
  check_cuda(cudaGetLastError(), "dense_convolution_backward");
}

}  // namespace engram
