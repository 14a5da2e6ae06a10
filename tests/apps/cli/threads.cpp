#include "apps/cli/threads.h"

#include <ATen/Parallel.h>
#include <doctest/doctest.h>

#include "base/machine/processors.h"

using namespace engram;

TEST_CASE("what is chosen is what LibTorch gets; 0 is all that may be used") {
  CHECK(use_threads(1) == 1);
  CHECK(at::get_num_threads() == 1);
  CHECK(use_threads(0) == available_processors());
  CHECK(at::get_num_threads() == available_processors());
  use_threads(1);
}
