// On a GPU an agent acts by other kernels than it learns by.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "memory/core/registry.h"
#include "tests/agents/learn/ppo/own_ratios.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::own_ratios;
using engram::testing::OwnRatios;
using engram::testing::skip_without_gpu;

TEST_CASE("to the weights that played an episode, every ratio of it is 1 on a GPU, with every memory") {
  if (skip_without_gpu()) return;
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    const OwnRatios ratios = own_ratios(backbone, torch::kCUDA, "float32");
    CHECK(ratios.largest < 1e-5);
    CHECK(ratios.spread > 1e-3);
  }
}

TEST_CASE("so it is with a continuous action on a GPU") {
  if (skip_without_gpu()) return;
  for (const char* const backbone : {"gru", "hqlt", "lru"}) {
    CAPTURE(backbone);
    const OwnRatios ratios = own_ratios(backbone, torch::kCUDA, "float32", "pendulum");
    CHECK(ratios.largest < 1e-5);
    CHECK(ratios.spread > 1e-3);
  }
}

// Eight bits of mantissa: a ratio is off by some thousandths, far from the clip's 0.2.
TEST_CASE("in bfloat16 a ratio that is 1 is near 1") {
  if (skip_without_gpu()) return;
  double largest = 0;
  for (const std::string& backbone : backbone_names()) {
    CAPTURE(backbone);
    const OwnRatios ratios = own_ratios(backbone, torch::kCUDA, "bfloat16");
    MESSAGE(backbone << ": largest " << ratios.largest << ", mean " << ratios.mean);
    CHECK(ratios.largest < 0.1);
    CHECK(ratios.mean < 0.01);
    largest = std::max(largest, ratios.largest);
  }
  CHECK(largest > 1e-5);  // it was bfloat16
}
