// A convolution of a small image as one matrix, and the gradient of that matrix back to the convolution's. With stride
// 1 and no padding, input [M, H, L], output [C, I, J], I = H - U + 1, J = L - V + 1,
//   y[c, i, j] = b[c] + sum over m, u, v of w[c, m, u, v] x[m, i + u, j + v],
// which is a linear map of rows (c, i, j) and columns (m, h, l):
//   W[(c, i, j), (m, h, l)] = w[c, m, h - i, l - j] inside the kernel, 0 outside,   B[(c, i, j)] = b[c]
// All float32, contiguous. All work is queued on `stream`; every sum has one owner and one order, so the same input
// gives the same bits. Errors: std::runtime_error for a shape without an output or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

namespace engram {

struct ConvolutionShape {
  int outputs, channels;            // C, M
  int height, width;                // of the image, H and L
  int kernel_height, kernel_width;  // U, V

  int output_height() const { return height - kernel_height + 1; }
  int output_width() const { return width - kernel_width + 1; }
  int rows() const { return outputs * output_height() * output_width(); }
  int columns() const { return channels * height * width; }
};

// weight [C, M, U, V] and bias [C] as [rows, columns] and [rows].
void dense_convolution(const ConvolutionShape& shape, const float* weight, const float* bias, float* dense_weight,
                       float* dense_bias, cudaStream_t stream);

// d_weight[c, m, u, v] = sum over i, j of d_dense_weight[(c, i, j), (m, i + u, j + v)], d_bias[c] = sum of its rows.
void dense_convolution_backward(const ConvolutionShape& shape, const float* d_dense_weight, const float* d_dense_bias,
                                float* d_weight, float* d_bias, cudaStream_t stream);

}  // namespace engram
