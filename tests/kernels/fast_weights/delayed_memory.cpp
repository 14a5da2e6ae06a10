#include "kernels/fast_weights/delayed_memory/delayed_memory.h"

#include <doctest/doctest.h>

#include "tests/kernels/fast_weights/delayed_memory_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_on_gpu(const DelayedMemoryCase& c) {
  check_delayed_memory<DeviceMemory>(c, [](const DelayedMemoryStep& step) { delayed_memory_step(step, nullptr); });
}

}  // namespace

TEST_CASE("a step of the delayed fast weights equals the formula, for every number of rows, width and ring") {
  if (skip_without_gpu()) return;
  check_each(delayed_memory_cases({1, 2, 37}, {1, 2, 16, 40, 50, 64, 65, 100, 128}, {1, 2, 5, 16, 17, 64, 100}),
             check_on_gpu);
}

TEST_CASE("small shapes: delayed fast weights") {
  if (skip_without_gpu()) return;
  for (const DelayedMemoryCase& c : delayed_memory_cases({3}, {50, 128}, {5, 33})) check_on_gpu(c);
}
