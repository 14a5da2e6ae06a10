// Products for kernels/block/small_product: for its tests.
#pragma once

#include <algorithm>
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
  return joined(c.rows, " x ", c.inner, " x ", c.columns, c.b_transposed ? " transposed" : "",
                c.biased ? " biased" : "", c.relu ? " relu" : "", " gap ", c.gap);
}

// Rows of `width`, with NaN in the gaps between them.
inline Numbers normals_with_gaps(Rng& rng, std::int64_t rows, int width, int gap) {
  Numbers x = normals(rng, rows * (width + gap), Dtype::kBfloat16);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i % (width + gap)) >= width) x[i] = kNaN;
  return x;
}

// What a kernel writes: a matrix with its gaps and some elements after it, NaN before a run.
class SmallOutput {
 public:
  SmallOutput(std::int64_t rows, int columns, int stride, Dtype dtype)
      : size_(rows * stride), columns_(columns), stride_(stride), dtype_(dtype) {}

  void* poisoned() {
    poison(bytes_, size_ + kAfter, dtype_);
    return bytes_.data();
  }
  Bytes bits() const { return bytes_.to_host(); }
  // The matrix alone; `untouched`: nothing is written outside of it.
  Numbers matrix(bool& untouched) const {
    Bytes bytes = bits();
    const std::size_t element_bytes = dtype_bytes(dtype_);
    untouched = true;
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      const std::size_t element = i / element_bytes;
      const bool inside = element < size_ && static_cast<int>(element % stride_) < columns_;
      if (!inside && bytes[i] != 0xff) untouched = false;
    }
    bytes.resize(element_bytes * size_);
    return decode(bytes, dtype_, columns_, stride_);
  }

 private:
  static constexpr std::size_t kAfter = 4096;
  std::size_t size_;
  int columns_, stride_;
  Dtype dtype_;
  DeviceBytes bytes_;
};

// Operands, with NaN between the rows, and the result in double precision.
struct SmallProductProblem {
  SmallProductCase shape;
  Numbers a, b, bias;  // rows with their gaps

  explicit SmallProductProblem(const SmallProductCase& c) : shape(c) {
    Rng rng(17, Purpose::kTest, 33, static_cast<std::uint64_t>(c.rows));
    a = normals_with_gaps(rng, c.rows, c.inner, c.gap);
    b = normals_with_gaps(rng, b_rows(), c.b_transposed ? c.inner : c.columns, c.gap);
    if (c.biased) bias = normals(rng, c.columns, Dtype::kBfloat16);
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
        c_(p.shape.rows, p.shape.columns, p.c_stride(), Dtype::kBfloat16),
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

  const SmallOutput& run() {
    product_.c = c_.poisoned();
    small_product(product_, nullptr);
    return c_;
  }

 private:
  DeviceBytes a_, b_, bias_;
  SmallOutput c_;
  SmallProduct product_;
};

struct SmallGradientCase {
  std::int64_t rows;
  int outputs, inputs;
  int gap = 0;  // elements between the rows of each operand
};

inline std::string text(const SmallGradientCase& c) {
  return joined(c.rows, " rows of ", c.outputs, " and ", c.inputs, " gap ", c.gap);
}

// As SmallProductProblem, for small_gradient().
struct SmallGradientProblem {
  SmallGradientCase shape;
  Numbers a, b;

  explicit SmallGradientProblem(const SmallGradientCase& c) : shape(c) {
    Rng rng(17, Purpose::kTest, 34, static_cast<std::uint64_t>(c.rows));
    a = normals_with_gaps(rng, c.rows, c.outputs, c.gap);
    b = normals_with_gaps(rng, c.rows, c.inputs, c.gap);
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
        parts_(std::int64_t{small_gradient_parts(p.shape.rows)} * p.shape.outputs, p.shape.inputs, p.shape.inputs,
               Dtype::kFloat32),
        gradient_{.rows = p.shape.rows,
                  .outputs = p.shape.outputs,
                  .inputs = p.shape.inputs,
                  .a = a_.data(),
                  .a_stride = p.shape.outputs + p.shape.gap,
                  .b = b_.data(),
                  .b_stride = p.shape.inputs + p.shape.gap,
                  .parts = nullptr} {}

  const SmallOutput& run() {
    gradient_.parts = static_cast<float*>(parts_.poisoned());
    small_gradient(gradient_, nullptr);
    return parts_;
  }

 private:
  DeviceBytes a_, b_;
  SmallOutput parts_;
  SmallGradient gradient_;
};

}  // namespace engram::testing
