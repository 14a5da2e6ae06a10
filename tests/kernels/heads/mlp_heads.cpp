#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "tests/kernels/heads/mlp_heads_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kHidden = kMlpHeadsHidden;

bool skip_without_hopper() {
  if (skip_without_gpu()) return true;
  if (mlp_heads_support({64, 100, 112, kHidden, 8, 1, 1})) return false;
  skip_case("no GPU of compute capability 9.0, or a build without sm_90a");
  return true;
}

void check_shape(const MlpHeadsShape& shape, const std::vector<std::int64_t>& rows) {
  const std::string name = text(shape);
  INFO(name);
  const MlpHeadsProblem problem(shape);
  MlpHeadsOnDevice device(problem);
  device.run();
  check_mlp_heads_errors(mlp_heads_errors(problem, device.results(), rows));
}

}  // namespace

// bfloat16 has 8 bits: an element that is rounded once is off by 0.0017 (RMS), and every hidden layer between it and
// the inputs adds about as much; where plain products are no better, neither can these be.
TEST_CASE("heads against the reference") {
  if (skip_without_hopper()) return;
  for (const MlpHeadsShape& shape : {MlpHeadsShape{1, 100, 112, kHidden, 4, 5, 3},
                                     {63, 16, 16, kHidden, 2, 1, 1},
                                     {64, 100, 112, kHidden, 8, 3, 3},
                                     {65, 50, 64, kHidden, 3, 2, 2},
                                     {191, 128, 128, kHidden, 16, 2, 1},
                                     {200, 70, 80, kHidden, 9, 4, 2},
                                     {1000, 100, 112, kHidden, 4, 5, 3},
                                     {130, 111, 112, kHidden, 7, 2, 0},
                                     {70, 20, 32, kHidden, 12, 5, 5}})
    check_shape(shape, all_rows(shape));
}

TEST_CASE("heads of more rows than are in flight at a time") {
  if (skip_without_hopper()) return;
  const MlpHeadsShape update{49984, 100, 112, kHidden, 4, 5, 3}, wide{20011, 128, 128, kHidden, 16, 2, 2};
  check_shape(update, some_rows(update, 487));
  check_shape(wide, some_rows(wide, 487));
}

TEST_CASE("heads: NaN in a row reaches no other") {
  if (skip_without_hopper()) return;
  const MlpHeadsShape shape{150, 100, 112, kHidden, 4, 3, 2};
  const double nan = std::numeric_limits<double>::quiet_NaN();
  MlpHeadsProblem problem(shape);
  MlpHeadsOnDevice clean(problem);
  clean.run();
  constexpr int kRow = 70;
  std::fill_n(problem.x_MP.begin() + kRow * shape.stride, shape.width, nan);
  for (Numbers& d : problem.d_output) std::fill_n(d.begin() + kRow * shape.output_stride(), shape.outputs, nan);
  MlpHeadsOnDevice dirty(problem);
  dirty.run();
  for (const auto member : {&MlpHeadsOnDevice::first, &MlpHeadsOnDevice::second, &MlpHeadsOnDevice::d_first,
                            &MlpHeadsOnDevice::d_second, &MlpHeadsOnDevice::d_x}) {
    const Numbers before = download(clean.*member, Dtype::kBfloat16), after = download(dirty.*member, Dtype::kBfloat16);
    CHECK(equal_but_for(before, after, before.size() / shape.rows, kRow, kRow + 1));
    CHECK(std::isnan(after[before.size() / shape.rows * kRow]));
  }
  const std::int64_t own = shape.rows * shape.output_stride();
  for (int head = 0; head < shape.heads; ++head)
    CHECK(equal_but_for(part(download(clean.output, Dtype::kFloat32), head * own, own),
                        part(download(dirty.output, Dtype::kFloat32), head * own, own), shape.output_stride(), kRow,
                        kRow + 1));
}

TEST_CASE("heads give the same bits 1,000 times") {
  if (skip_without_hopper()) return;
  const MlpHeadsProblem problem({1100, 100, 112, kHidden, 4, 3, 2});
  MlpHeadsOnDevice device(problem);
  CHECK(different_runs([&] {
          device.run();
          return device.bits();
        }) == 0);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: heads") {
  if (skip_without_hopper()) return;
  for (const MlpHeadsShape& shape : {MlpHeadsShape{70, 20, 32, kHidden, 4, 3, 2}, {129, 100, 112, kHidden, 9, 2, 2}})
    check_shape(shape, all_rows(shape));
}

TEST_CASE("heads' kernels take no shape outside the contract") {
  if (skip_without_hopper()) return;
  for (const MlpHeadsShape& shape : kMlpHeadsRefused) {
    const std::string name = text(shape);
    INFO(name);
    CHECK_FALSE(mlp_heads_support(shape));
  }
}
