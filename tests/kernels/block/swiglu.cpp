#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "tests/kernels/block/swiglu_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

bool skip_here() {
  return skip_without_hopper([] { return fused_swiglu_support(112, 512); });
}

// Hidden units and their gradients are rounded once, and so are y and x's gradient: about 0.0017 each.
constexpr double kForwardBound = 0.005, kBackwardBound = 0.008;

void check(const SwiGluCase& c) {
  INFO(c.name());
  SwiGluProblem problem(c);
  problem.forward();
  problem.backward();
  const SwiGluErrors errors = row_errors(problem, rows_to_check(c.rows));
  CHECK(errors.y.relative <= kForwardBound);
  CHECK(errors.y.largest <= 2);
  CHECK(errors.d_x.relative <= kBackwardBound);
  CHECK(errors.d_x.largest <= 2);
  if (c.rows <= 3000) {  // the reference's time
    problem.weight_gradient();
    for (const ErrorsBesidePlain& error : weight_errors(problem)) {
      CHECK(error.relative <= kBackwardBound);
      CHECK(error.largest <= 2);
    }
  }
  // After the width: zero.
  if (c.width < c.stride)
    for (const DeviceBytes* out : {&problem.y, &problem.d_x})
      CHECK(columns(download(*out, Dtype::kBfloat16), c.stride, c.width, c.stride - c.width) ==
            Numbers(c.rows * (c.stride - c.width), 0));
}

std::vector<Bytes> results(SwiGluProblem& problem) {
  problem.forward();
  problem.backward();
  problem.weight_gradient();
  return {problem.y.to_host(), problem.d_x.to_host(), problem.d_gate.to_host(), problem.d_up.to_host(),
          problem.d_down.to_host()};
}

}  // namespace

TEST_CASE("the fused SwiGLU and its gradients equal the formula's") {
  if (skip_here()) return;
  for (const std::int64_t rows : {1, 63, 64, 65, 191, 193, 1000, 2999, 49984}) check({rows, 100, 112, 512});
  for (const int stride : {16, 32, 48, 64, 80, 96, 112, 128})
    for (const int inner : {64, 192, 256, 512})
      for (const int width : {stride, stride - 3}) check({133, width, stride, inner});
}

TEST_CASE("NaN in one row of the fused SwiGLU reaches no other row") {
  if (skip_here()) return;
  constexpr int kRow = 70;
  SwiGluProblem problem({197, 100, 112, 128});
  const auto clean = results(problem);
  std::fill_n(problem.x.begin() + kRow * problem.c.stride, problem.c.width, kNaN);
  std::fill_n(problem.d_y.begin() + (kRow + 1) * problem.c.stride, problem.c.width, kNaN);
  problem.upload_rows();
  const auto other = results(problem);
  const std::size_t row_bytes = 2 * problem.c.stride, begin = kRow * row_bytes, end = (kRow + 2) * row_bytes;
  for (int i = 0; i < 2; ++i) {  // y and x's gradient
    CHECK(std::equal(clean[i].begin(), clean[i].begin() + begin, other[i].begin()));
    CHECK(std::equal(clean[i].begin() + end, clean[i].end(), other[i].begin() + end));
  }
}

TEST_CASE("the fused SwiGLU gives the same bits 1,000 times") {
  if (skip_here()) return;
  SwiGluProblem problem({1000, 100, 112, 512});
  CHECK(different_runs([&] {
          problem.poison_outputs();
          return results(problem);
        }) == 0);
}

TEST_CASE("the fused SwiGLU refuses other shapes") {
  if (skip_here()) return;
  for (const auto& [stride, inner] : {std::pair(112, 32), {112, 96}, {104, 64}, {144, 64}, {0, 64}, {112, 0}})
    CHECK(!fused_swiglu_support(stride, inner));
  const SwiGluProblem problem({3, 10, 16, 64});
  for (const auto& [width, stride, inner] : {std::tuple(17, 16, 64), {0, 16, 64}, {10, 24, 64}, {10, 16, 65}}) {
    FusedSwiGlu wrong = problem.input();
    wrong.width = width, wrong.stride = stride, wrong.inner = inner;
    CHECK_THROWS_AS(fused_swiglu_forward(wrong, nullptr, nullptr), std::runtime_error);
    CHECK_THROWS_AS(fused_swiglu_backward(wrong, {}, nullptr), std::runtime_error);
  }
  SwiGluPacking first{}, second{};
  first.width = second.width = 10, first.inner = second.inner = 64, first.stride = 16, second.stride = 32;
  CHECK_THROWS_AS(fused_swiglu_pack({first, second}, nullptr), std::runtime_error);
}

TEST_CASE("small shapes: fused SwiGLU") {  // what compute-sanitizer sees
  if (skip_here()) return;
  for (const SwiGluCase& c :
       {SwiGluCase{1, 100, 112, 64}, {130, 50, 64, 128}, {200, 100, 112, 320}, {65, 128, 128, 64}})
    check(c);
}
