// Products for kernels/block/small_product: for its tests.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/block/small_product/small_product.h"
#include "tests/kernels/block/block_test.h"

namespace engram::testing {

struct SmallProductCase {
  std::int64_t rows;
  int inner, columns;
  bool b_transposed, biased, relu;
  int gap = 0;  // elements between the rows of each matrix
};

inline std::string text(const SmallProductCase& c) {
  return std::to_string(c.rows) + " x " + std::to_string(c.inner) + " x " + std::to_string(c.columns) +
         (c.b_transposed ? " transposed" : "") + (c.biased ? " biased" : "") + (c.relu ? " relu" : "") + " gap " +
         std::to_string(c.gap);
}

// Operands, with NaN between the rows, and the result in double precision.
struct SmallProductProblem {
  SmallProductCase shape;
  Numbers a, b, bias;  // rows with their gaps

  explicit SmallProductProblem(const SmallProductCase& c) : shape(c) {
    Rng rng(17, Purpose::kTest, 33, static_cast<std::uint64_t>(c.rows));
    a = normals(rng, c.rows * a_stride(), Dtype::kBfloat16);
    b = normals(rng, static_cast<std::size_t>(b_rows()) * b_stride(), Dtype::kBfloat16);
    if (c.biased) bias = normals(rng, c.columns, Dtype::kBfloat16);
    const auto gaps = [](Numbers& x, int width, int stride) {
      for (std::size_t i = 0; i < x.size(); ++i)
        if (static_cast<int>(i % stride) >= width) x[i] = std::nan("");
    };
    gaps(a, c.inner, a_stride());
    gaps(b, c.b_transposed ? c.inner : c.columns, b_stride());
  }

  int a_stride() const { return shape.inner + shape.gap; }
  int b_rows() const { return shape.b_transposed ? shape.columns : shape.inner; }
  int b_stride() const { return (shape.b_transposed ? shape.inner : shape.columns) + shape.gap; }
  int c_stride() const { return shape.columns + shape.gap; }

  Numbers expected() const {
    Numbers c(shape.rows * shape.columns);
    for (std::int64_t m = 0; m < shape.rows; ++m) {
      double* row = c.data() + m * shape.columns;
      if (shape.biased) std::copy(bias.begin(), bias.end(), row);
      for (int k = 0; k < shape.inner; ++k)
        for (int n = 0; n < shape.columns; ++n)
          row[n] += a[m * a_stride() + k] * b[shape.b_transposed ? n * b_stride() + k : k * b_stride() + n];
      if (shape.relu) std::transform(row, row + shape.columns, row, [](double x) { return std::max(x, 0.0); });
    }
    return c;
  }
};

class SmallProductOnDevice {
 public:
  explicit SmallProductOnDevice(const SmallProductProblem& p)
      : a_(upload(p.a, Dtype::kBfloat16)),
        b_(upload(p.b, Dtype::kBfloat16)),
        bias_(upload(p.bias, Dtype::kBfloat16)),
        size_(p.shape.rows * p.c_stride()),
        product_{.rows = p.shape.rows,
                 .inner = p.shape.inner,
                 .columns = p.shape.columns,
                 .a = a_.data(),
                 .a_stride = p.a_stride(),
                 .b = b_.data(),
                 .b_stride = p.b_stride(),
                 .b_transposed = p.shape.b_transposed,
                 .bias = bias_.data(),
                 .relu = p.shape.relu,
                 .c = nullptr,
                 .c_stride = p.c_stride()} {}

  // C with its gaps and some elements after it, poisoned before it is written.
  std::vector<unsigned char> run() {
    poison(c_, size_ + kAfter, Dtype::kBfloat16);
    product_.c = c_.data();
    small_product(product_, nullptr);
    return c_.to_host();
  }
  // As run(), checked to be untouched outside the matrix: C [rows, columns].
  Numbers result(bool& untouched) {
    std::vector<unsigned char> bytes = run();
    untouched = true;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t element = i / 2;
      const bool inside = element < size_ && static_cast<int>(element % product_.c_stride) < product_.columns;
      if (!inside && bytes[i] != 0xff) untouched = false;
    }
    bytes.resize(2 * size_);
    return decode(bytes, Dtype::kBfloat16, product_.columns, product_.c_stride);
  }

 private:
  static constexpr std::size_t kAfter = 4096;
  DeviceBytes a_, b_, bias_, c_;
  std::size_t size_;
  SmallProduct product_;
};

struct SmallGradientCase {
  std::int64_t rows;
  int outputs, inputs;
  int gap = 0;  // elements between the rows of each operand
};

inline std::string text(const SmallGradientCase& c) {
  return std::to_string(c.rows) + " rows of " + std::to_string(c.outputs) + " and " + std::to_string(c.inputs) +
         " gap " + std::to_string(c.gap);
}

// As SmallProductProblem, for small_gradient().
struct SmallGradientProblem {
  SmallGradientCase shape;
  Numbers a, b;

  explicit SmallGradientProblem(const SmallGradientCase& c) : shape(c) {
    Rng rng(17, Purpose::kTest, 34, static_cast<std::uint64_t>(c.rows));
    const auto rows_of = [&](int width) {
      Numbers x = normals(rng, c.rows * (width + c.gap), Dtype::kBfloat16);
      for (std::size_t i = 0; i < x.size(); ++i)
        if (static_cast<int>(i % (width + c.gap)) >= width) x[i] = std::nan("");
      return x;
    };
    a = rows_of(c.outputs);
    b = rows_of(c.inputs);
  }

  // All parts, one after the other.
  Numbers expected() const {
    const std::int64_t of_part = small_gradient_part_rows(shape.rows);
    Numbers parts(static_cast<std::size_t>(small_gradient_parts(shape.rows)) * shape.outputs * shape.inputs);
    for (std::int64_t row = 0; row < shape.rows; ++row)
      for (int m = 0; m < shape.outputs; ++m)
        for (int n = 0; n < shape.inputs; ++n)
          parts[(row / of_part * shape.outputs + m) * shape.inputs + n] +=
              a[row * (shape.outputs + shape.gap) + m] * b[row * (shape.inputs + shape.gap) + n];
    return parts;
  }
};

class SmallGradientOnDevice {
 public:
  explicit SmallGradientOnDevice(const SmallGradientProblem& p)
      : a_(upload(p.a, Dtype::kBfloat16)),
        b_(upload(p.b, Dtype::kBfloat16)),
        size_(static_cast<std::size_t>(small_gradient_parts(p.shape.rows)) * p.shape.outputs * p.shape.inputs),
        gradient_{.rows = p.shape.rows,
                  .outputs = p.shape.outputs,
                  .inputs = p.shape.inputs,
                  .a = a_.data(),
                  .a_stride = p.shape.outputs + p.shape.gap,
                  .b = b_.data(),
                  .b_stride = p.shape.inputs + p.shape.gap,
                  .parts = nullptr} {}

  // The parts and some elements after them, poisoned before they are written.
  std::vector<unsigned char> run() {
    poison(parts_, size_ + kAfter, Dtype::kFloat32);
    gradient_.parts = reinterpret_cast<float*>(parts_.data());
    small_gradient(gradient_, nullptr);
    return parts_.to_host();
  }
  Numbers result(bool& untouched) {
    std::vector<unsigned char> bytes = run();
    untouched = std::all_of(bytes.begin() + static_cast<std::ptrdiff_t>(4 * size_), bytes.end(),
                            [](unsigned char byte) { return byte == 0xff; });
    bytes.resize(4 * size_);
    return decode(bytes, Dtype::kFloat32, static_cast<int>(gradient_.inputs), static_cast<int>(gradient_.inputs));
  }

 private:
  static constexpr std::size_t kAfter = 4096;
  DeviceBytes a_, b_, parts_;
  std::size_t size_;
  SmallGradient gradient_;
};

}  // namespace engram::testing
