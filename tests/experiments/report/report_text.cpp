#include <doctest/doctest.h>

#include <utility>

#include "experiments/report/text.h"

using namespace engram;

TEST_CASE("fractions are shown in percent, and rounding errors about zero without their sign") {
  CHECK(percent(0.5) == "50.0");
  CHECK(percent(-0.25) == "-25.0");
  CHECK(percent(-1e-17) == "0.0");
  CHECK(percent(-0.0006) == "-0.1");
  CHECK(percent(Estimate{-1e-17, std::pair(-1e-17, 0.125)}) == "0.0 (0.0 to 12.5)");
  // Where all runs agree there is nothing between the ends.
  CHECK(percent(Estimate{0, std::pair(0.0, 0.0)}) == "0.0");
  CHECK(percent(Estimate{1, std::pair(0.9999, 1.0)}) == "100.0");
}
