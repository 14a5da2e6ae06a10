#include "kernels/block/small_product/small_product.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct SmallProductCase {
  std::int64_t rows;
  int inner, columns;
  bool b_transposed, biased, relu;
  int gap = 0;  // elements between the rows of each matrix
  Dtype c_dtype = Dtype::kBfloat16;
};

std::string text(const SmallProductCase& c) {
  return joined(c.rows, " x ", c.inner, " x ", c.columns, c.b_transposed ? " transposed" : "",
                c.biased ? " biased" : "", c.relu ? " relu" : "", " gap ", c.gap, " ", name_of(c.c_dtype));
}

// Rows of `width`, with NaN in the gaps between them.
Numbers normals_with_gaps(Rng& rng, std::int64_t rows, int width, int gap) {
  Numbers x = normals(rng, rows * (width + gap), Dtype::kBfloat16);
  for (std::size_t i = 0; i < x.size(); ++i)
    if (static_cast<int>(i % (width + gap)) >= width) x[i] = kNaN;
  return x;
}

// What a kernel writes: a matrix with its gaps and some elements after it, NaN at first.
class SmallOutput {
 public:
  SmallOutput(std::int64_t rows, int columns, int stride, Dtype dtype)
      : size_(rows * stride),
        columns_(columns),
        stride_(stride),
        dtype_(dtype),
        bytes_(poisoned(size_ + kAfter, dtype)) {}

  void* data() { return bytes_.data(); }
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

SmallOutput run(const SmallProductProblem& p) {
  const DeviceBytes a = upload(p.a, Dtype::kBfloat16), b = upload(p.b, Dtype::kBfloat16),
                    bias = upload(p.bias, p.shape.c_dtype);
  SmallOutput c(p.shape.rows, p.shape.columns, p.c_stride(), p.shape.c_dtype);
  small_product({.rows = p.shape.rows,
                 .inner = p.shape.inner,
                 .columns = p.shape.columns,
                 .a = a.data(),
                 .a_stride = p.a_stride(),
                 .b = b.data(),
                 .b_stride = p.b_stride(),
                 .b_transposed = p.shape.b_transposed,
                 .bias = bias.data(),
                 .relu = p.shape.relu,
                 .c = c.data(),
                 .c_stride = p.c_stride(),
                 .c_dtype = p.shape.c_dtype},
                nullptr);
  return c;
}

struct SmallGradientCase {
  std::int64_t rows;
  int outputs, inputs;
  int gap = 0;  // elements between the rows of each operand
};

std::string text(const SmallGradientCase& c) {
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

SmallOutput run(const SmallGradientProblem& p) {
  const SmallGradientCase& c = p.shape;
  const DeviceBytes a = upload(p.a, Dtype::kBfloat16), b = upload(p.b, Dtype::kBfloat16);
  SmallOutput parts(std::int64_t{small_gradient_parts(c.rows)} * c.outputs, c.inputs, c.inputs, Dtype::kFloat32);
  small_gradient({.rows = c.rows,
                  .outputs = c.outputs,
                  .inputs = c.inputs,
                  .a = a.data(),
                  .a_stride = c.outputs + c.gap,
                  .b = b.data(),
                  .b_stride = c.inputs + c.gap,
                  .parts = static_cast<float*>(parts.data())},
                 nullptr);
  return parts;
}

template <class Problem>
void check_problem(const Problem& problem, double tolerance) {
  Numbers actual;
  bool untouched = false;
  {
    const std::lock_guard lock(gpu_in_use);
    actual = run(problem).matrix(untouched);
  }
  const double error = relative_error(actual, problem.expected());
  const std::lock_guard lock(gpu_in_use);  // doctest's reports too
  INFO(text(problem.shape));
  CHECK(untouched);
  CHECK(error <= tolerance);
}

// Sums of at most 512 products in float, rounded once. The tensor cores add 16 of them at a time to a sum in float, and
// cut off what does not fit.
void check(const SmallProductCase& shape) {
  const double additions = (shape.inner + 15) / 16 + (shape.biased ? 1 : 0);
  check_problem(SmallProductProblem(shape),
                shape.c_dtype == Dtype::kFloat32 ? additions * 0x1p-23 : rounded_once(Dtype::kBfloat16));
}

void check_gradient(const SmallGradientCase& shape) {
  const std::int64_t additions = (std::min(shape.rows, small_gradient_part_rows(shape.rows)) + 15) / 16;
  check_problem(SmallGradientProblem(shape), static_cast<double>(additions) * 0x1p-23);
}

// Both forms of B, with and without bias and relu.
std::vector<SmallProductCase> forms(std::int64_t rows, int inner, int columns, int gap) {
  std::vector<SmallProductCase> all;
  for (const bool transposed : {false, true})
    for (const bool biased : {false, true})
      for (const Dtype dtype : kDtypes) all.push_back({rows, inner, columns, transposed, biased, biased, gap, dtype});
  return all;
}

}  // namespace

TEST_CASE("small products of every size against double precision") {
  if (skip_without_gpu()) return;
  std::vector<SmallProductCase> cases;
  const auto add = [&](const std::vector<SmallProductCase>& more) {
    cases.insert(cases.end(), more.begin(), more.end());
  };
  for (const std::int64_t rows : {1, 63, 64, 65, 704})
    for (const int inner : {16, 48, 64, 80, 112, 256, 512}) add(forms(rows, inner, 64, 0));
  for (const int columns : {8, 16, 72, 192, 320, 1024})
    for (const int inner : {8, 64, 136}) add(forms(130, inner, columns, 8));
  add(forms(3744, 112, 192, 16));
  add(forms(kSmallProductRows, 64, 64, 0));
  cases.push_back({65, 64, 64, true, true, false, 64});
  cases.push_back({65, 64, 64, false, false, true, 64});
  check_each(cases, check);
}

TEST_CASE("small products: NaN in a row reaches no other") {
  if (skip_without_gpu()) return;
  constexpr int kRow = 70;
  for (const SmallProductCase& shape : forms(150, 112, 72, 0)) {
    SmallProductProblem problem(shape);
    bool untouched = false;
    const Numbers clean = run(problem).matrix(untouched);
    problem.a[kRow * problem.a_stride() + 3] = kNaN;
    const Numbers dirty = run(problem).matrix(untouched);
    CHECK(equal_but_for(clean, dirty, shape.columns, kRow, kRow + 1));
    for (int n = 0; n < shape.columns; ++n) CHECK(std::isnan(dirty[kRow * shape.columns + n]));
  }
}

TEST_CASE("small products give the same bits 1,000 times, and a row's whatever the number of rows") {
  if (skip_without_gpu()) return;
  const SmallProductProblem problem({704, 320, 192, true, true, true});
  CHECK(different_runs([&] { return run(problem).bits(); }) == 0);
  SmallProductProblem first = problem;
  first.shape.rows = 100;
  bool untouched = false;
  CHECK(run(first).matrix(untouched) == part(run(problem).matrix(untouched), 0, 100 * 192));
}

TEST_CASE("small gradients of every size against double precision") {
  if (skip_without_gpu()) return;
  std::vector<SmallGradientCase> cases;
  for (const std::int64_t rows : {1, 15, 63, 64, 65, 255, 256, 257, 704, 3776, 4097, 8576})
    cases.push_back({rows, 64, 64});
  for (const int outputs : {8, 16, 72, 192, 256})
    for (const int inputs : {8, 64, 112, 200}) cases.push_back({300, outputs, inputs, 8});
  cases.push_back({kSmallProductRows, 128, 64});
  cases.push_back({130, 1024, 1024});
  check_each(cases, check_gradient);
}

TEST_CASE("small gradients give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  const SmallGradientProblem problem({3776, 192, 64});
  CHECK(different_runs([&] { return run(problem).bits(); }) == 0);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: small products") {
  if (skip_without_gpu()) return;
  for (const SmallProductCase& shape : forms(70, 144, 72, 8)) check(shape);
  for (const SmallProductCase& shape : forms(1, 16, 8, 0)) check(shape);
  check_gradient({300, 72, 80, 8});
  check_gradient({1, 8, 16});
}
