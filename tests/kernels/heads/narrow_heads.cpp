#include <doctest/doctest.h>

#include <string>

#include "tests/kernels/heads/narrow_heads_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// The widest shapes take more shared memory than some GPUs have.
bool supported(const MlpHeadsShape& shape) {
  INFO(text(shape));
  const Support support = supports_narrow_heads(shape);
  if (!support) CHECK(support.reason().find("bytes of shared memory are more than the GPU's") != std::string::npos);
  return static_cast<bool>(support);
}

void check_shape(const MlpHeadsShape& shape) {
  if (supported(shape)) check_heads<NarrowHeadsOnDevice>(shape, all_rows(shape));
}

void check_hidden(int hidden) {
  for (const MlpHeadsShape& shape : {MlpHeadsShape{1, 64, 64, hidden, 16, 5, 3},
                                     {63, 20, 32, hidden, 1, 1, 1},
                                     {64, 100, 112, hidden, 3, 5, 3},
                                     {65, 64, 64, hidden, 4, 2, 0},
                                     {65, 111, 112, hidden, 7, 8, 8},
                                     {130, 16, 16, hidden, 16, 1, 1},
                                     {191, 128, 128, hidden, 9, 2, 2},
                                     {704, 64, 64, hidden, 4, 5, 3},
                                     {3744, 100, 112, hidden, 4, 5, 3}})
    check_shape(shape);
}

}  // namespace

TEST_CASE("narrow heads of 64 hidden units against the reference") {
  if (!skip_without_gpu()) check_hidden(64);
}
TEST_CASE("narrow heads of 128 hidden units against the reference") {
  if (!skip_without_gpu()) check_hidden(128);
}

TEST_CASE("narrow heads of more rows than are in flight at a time") {
  if (!skip_without_gpu()) check_shape({6500, 20, 32, 64, 4, 8, 8});
}

TEST_CASE("narrow heads: NaN in a row reaches no other") {
  if (skip_without_gpu()) return;
  check_nan_in_a_row<NarrowHeadsOnDevice>({150, 100, 112, 64, 4, 3, 2});
}

TEST_CASE("narrow heads give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  const MlpHeadsShape narrow{1100, 100, 112, 64, 4, 3, 2}, wide{500, 64, 64, 128, 3, 3, 2};
  for (const MlpHeadsShape& shape : {narrow, wide})
    if (supported(shape)) check_same_bits<NarrowHeadsOnDevice>(shape);
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: narrow heads") {
  if (skip_without_gpu()) return;
  for (const MlpHeadsShape& shape :
       {MlpHeadsShape{70, 20, 32, 64, 4, 3, 2}, {129, 100, 112, 64, 9, 2, 2}, {70, 64, 64, 128, 3, 2, 1}})
    check_shape(shape);
}
