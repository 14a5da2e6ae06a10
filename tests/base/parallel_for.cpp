#include "base/machine/parallel_for.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace engram;

TEST_CASE("parallel_for does every piece once and hands on what one throws") {
  for (const std::size_t count : {0, 1, 3, 1000}) {
    std::vector<int> done(count);
    parallel_for(count, [&](std::size_t i) { ++done[i]; });
    CHECK(done == std::vector<int>(count, 1));
  }
  CHECK_THROWS_AS(parallel_for(100,
                               [](std::size_t i) {
                                 if (i == 37) throw std::runtime_error("piece 37");
                               }),
                  std::runtime_error);
}
