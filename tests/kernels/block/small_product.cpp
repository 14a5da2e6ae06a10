#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/kernels/block/small_product_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

template <class OnDevice, class Problem>
void check_problem(const Problem& problem, double tolerance) {
  Numbers actual;
  bool untouched = false;
  {
    const std::lock_guard lock(gpu_in_use);
    actual = OnDevice(problem).run().matrix(untouched);
  }
  const double error = relative_error(actual, problem.expected());
  const std::lock_guard lock(gpu_in_use);  // doctest's reports too
  INFO(text(problem.shape));
  CHECK(untouched);
  CHECK(error <= tolerance);
}

// Sums of at most 512 products in float, rounded once.
void check(const SmallProductCase& shape) {
  check_problem<SmallProductOnDevice>(SmallProductProblem(shape), rounded_once(Dtype::kBfloat16));
}

// The tensor cores add the products of 16 rows at a time to a sum in float, and cut off what does not fit.
void check_gradient(const SmallGradientCase& shape) {
  const std::int64_t additions = (std::min(shape.rows, small_gradient_part_rows(shape.rows)) + 15) / 16;
  check_problem<SmallGradientOnDevice>(SmallGradientProblem(shape), static_cast<double>(additions) * 0x1p-23);
}

// Both forms of B, with and without bias and relu.
std::vector<SmallProductCase> forms(std::int64_t rows, int inner, int columns, int gap) {
  std::vector<SmallProductCase> all;
  for (const bool transposed : {false, true})
    for (const bool biased : {false, true}) all.push_back({rows, inner, columns, transposed, biased, biased, gap});
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
    const Numbers clean = SmallProductOnDevice(problem).run().matrix(untouched);
    problem.a[kRow * problem.a_stride() + 3] = kNaN;
    const Numbers dirty = SmallProductOnDevice(problem).run().matrix(untouched);
    CHECK(equal_but_for(clean, dirty, shape.columns, kRow, kRow + 1));
    for (int n = 0; n < shape.columns; ++n) CHECK(std::isnan(dirty[kRow * shape.columns + n]));
  }
}

TEST_CASE("small products give the same bits 1,000 times, and a row's whatever the number of rows") {
  if (skip_without_gpu()) return;
  const SmallProductProblem problem({704, 320, 192, true, true, true});
  SmallProductOnDevice device(problem);
  CHECK(different_runs([&] { return device.run().bits(); }) == 0);
  SmallProductProblem first = problem;
  first.shape.rows = 100;
  bool untouched = false;
  CHECK(SmallProductOnDevice(first).run().matrix(untouched) == part(device.run().matrix(untouched), 0, 100 * 192));
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
  SmallGradientOnDevice device(SmallGradientProblem({3776, 192, 64}));
  CHECK(different_runs([&] { return device.run().bits(); }) == 0);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: small products") {
  if (skip_without_gpu()) return;
  for (const SmallProductCase& shape : forms(70, 144, 72, 8)) check(shape);
  for (const SmallProductCase& shape : forms(1, 16, 8, 0)) check(shape);
  check_gradient({300, 72, 80, 8});
  check_gradient({1, 8, 16});
}
