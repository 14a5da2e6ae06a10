#include <doctest/doctest.h>

#include <cstdint>
#include <vector>

#include "tests/kernels/heads/mlp_heads_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kHidden = kMlpHeadsHidden;

bool skip_here() {
  return skip_without_hopper([] { return supports_mlp_heads({64, 100, 112, kHidden, 8, 1, 1}); });
}

void check_shape(const MlpHeadsShape& shape, const std::vector<std::int64_t>& rows) {
  check_heads<MlpHeadsOnDevice>(shape, rows);
}

}  // namespace

// bfloat16 has 8 bits: an element that is rounded once is off by 0.0017 (RMS), and every hidden layer between it and
// the inputs adds about as much; where plain products are no better, neither can these be.
TEST_CASE("heads against the reference") {
  if (skip_here()) return;
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
  if (skip_here()) return;
  const MlpHeadsShape update{49984, 100, 112, kHidden, 4, 5, 3}, wide{20011, 128, 128, kHidden, 16, 2, 2};
  check_shape(update, some_rows(update, 487));
  check_shape(wide, some_rows(wide, 487));
}

TEST_CASE("heads: NaN in a row reaches no other") {
  if (skip_here()) return;
  check_nan_in_a_row<MlpHeadsOnDevice>({150, 100, 112, kHidden, 4, 3, 2});
}

TEST_CASE("heads give the same bits 1,000 times") {
  if (skip_here()) return;
  check_same_bits<MlpHeadsOnDevice>({1100, 100, 112, kHidden, 4, 3, 2});
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: heads") {
  if (skip_here()) return;
  for (const MlpHeadsShape& shape : {MlpHeadsShape{70, 20, 32, kHidden, 4, 3, 2}, {129, 100, 112, kHidden, 9, 2, 2}})
    check_shape(shape, all_rows(shape));
}

TEST_CASE("heads' kernels take no shape outside the contract") {
  if (skip_here()) return;
  for (const MlpHeadsShape& shape : kMlpHeadsRefused) {
    INFO(text(shape));
    CHECK_FALSE(supports_mlp_heads(shape));
  }
}
