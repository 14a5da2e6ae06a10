#include "kernels/block/dense_convolution/dense_convolution.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr ConvolutionShape kShapes[] = {{8, 3, 5, 5, 2, 2}, {16, 8, 4, 4, 2, 2}, {1, 1, 1, 1, 1, 1},
                                        {3, 2, 4, 7, 4, 1}, {5, 2, 3, 9, 2, 3},  {2, 1, 2, 2, 2, 2},
                                        {8, 3, 7, 7, 2, 2}, {16, 8, 6, 6, 2, 2}};

std::size_t weights(const ConvolutionShape& shape) {
  return static_cast<std::size_t>(shape.outputs) * shape.channels * shape.kernel_height * shape.kernel_width;
}
std::size_t matrix(const ConvolutionShape& shape) { return static_cast<std::size_t>(shape.rows()) * shape.columns(); }

// Calls function(index of w, row of W, column of W) for every product of the convolution.
template <class Function>
void for_products(const ConvolutionShape& shape, Function function) {
  int row = 0;
  for (int c = 0; c < shape.outputs; ++c)
    for (int i = 0; i < shape.output_height(); ++i)
      for (int j = 0; j < shape.output_width(); ++j, ++row) {
        std::size_t weight = c * weights(shape) / shape.outputs;
        for (int m = 0; m < shape.channels; ++m)
          for (int u = 0; u < shape.kernel_height; ++u)
            for (int v = 0; v < shape.kernel_width; ++v)
              function(weight++, row, (m * shape.height + i + u) * shape.width + j + v);
      }
}

}  // namespace

TEST_CASE("small shapes: a convolution as a matrix has its numbers where they belong") {
  if (skip_without_gpu()) return;
  Rng rng(1, Purpose::kTest, 31, 0);
  for (const ConvolutionShape& shape : kShapes) {
    CAPTURE(shape.rows());
    CAPTURE(shape.columns());
    const Numbers weight = normals(rng, weights(shape), Dtype::kFloat32),
                  bias = normals(rng, shape.outputs, Dtype::kFloat32);
    Numbers expected(matrix(shape)), expected_bias;
    for_products(shape, [&](std::size_t w, int row, int column) {
      expected[static_cast<std::size_t>(row) * shape.columns() + column] = weight[w];
    });
    for (int row = 0; row < shape.rows(); ++row) expected_bias.push_back(bias[row * shape.outputs / shape.rows()]);
    const DeviceBytes device_weight = upload(weight, Dtype::kFloat32), device_bias = upload(bias, Dtype::kFloat32);
    DeviceBytes dense = poisoned(matrix(shape), Dtype::kFloat32), dense_bias = poisoned(shape.rows(), Dtype::kFloat32);
    dense_convolution(shape, floats(device_weight), floats(device_bias), floats(dense), floats(dense_bias), nullptr);
    CHECK(download(dense, Dtype::kFloat32) == expected);
    CHECK(download(dense_bias, Dtype::kFloat32) == expected_bias);
  }
}

// A sum of at most some tens of numbers: as many roundings of 2^-24.
TEST_CASE("small shapes: a matrix's gradient goes back to the convolution") {
  if (skip_without_gpu()) return;
  Rng rng(2, Purpose::kTest, 31, 0);
  for (const ConvolutionShape& shape : kShapes) {
    CAPTURE(shape.rows());
    CAPTURE(shape.columns());
    const Numbers d_dense = normals(rng, matrix(shape), Dtype::kFloat32),
                  d_dense_bias = normals(rng, shape.rows(), Dtype::kFloat32);
    Numbers expected(weights(shape)), expected_bias(shape.outputs);
    for_products(shape, [&](std::size_t w, int row, int column) {
      expected[w] += d_dense[static_cast<std::size_t>(row) * shape.columns() + column];
    });
    for (int row = 0; row < shape.rows(); ++row) expected_bias[row * shape.outputs / shape.rows()] += d_dense_bias[row];
    const DeviceBytes device = upload(d_dense, Dtype::kFloat32), device_bias = upload(d_dense_bias, Dtype::kFloat32);
    DeviceBytes d_weight, d_bias;
    CHECK(different_runs([&] {
            poison(d_weight, weights(shape), Dtype::kFloat32), poison(d_bias, shape.outputs, Dtype::kFloat32);
            dense_convolution_backward(shape, floats(device), floats(device_bias), floats(d_weight), floats(d_bias),
                                       nullptr);
            return bits_of(d_weight, d_bias);
          }) == 0);
    CHECK(relative_error(download(d_weight, Dtype::kFloat32), expected) <= 1e-6);
    CHECK(relative_error(download(d_bias, Dtype::kFloat32), expected_bias) <= 1e-6);
  }
}

TEST_CASE("a convolution without an output is refused") {
  if (skip_without_gpu()) return;
  for (const ConvolutionShape shape : {ConvolutionShape{8, 3, 1, 5, 2, 2}, ConvolutionShape{0, 3, 5, 5, 2, 2}})
    CHECK_THROWS_AS(dense_convolution(shape, nullptr, nullptr, nullptr, nullptr, nullptr), std::runtime_error);
}
