// A step of the delayed fast weights without a GPU: what the threads of the kernel do, in turns.
#include <doctest/doctest.h>

#include <type_traits>

#include "kernels/fast_weights/delayed_memory/walk.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/fast_weights/delayed_memory_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::delayed_memory;

namespace {

template <Delay kDelay, typename T, int kThreads>
void run_threads(const DelayedMemoryStep& step) {
  const Problem<T> problem = problem_of<T>(step);
  for (unsigned block = 0; block < static_cast<unsigned>(step.rows * step.heads); ++block)
    run_block<Walk<kDelay, T, kThreads>, Shared<kDelay, kThreads>>(problem, block, kThreads,
                                                                   [](auto& threads) { walk_block<kDelay>(threads); });
}

void run_on_cpu(const DelayedMemoryStep& step) {
  dispatch_dtype(step.dtype, [&](auto element) {
    using T = decltype(element);
    const auto of_delay = [&](auto threads) {
      if (step.delay == Delay::kStream)
        run_threads<Delay::kStream, T, threads()>(step);
      else
        run_threads<Delay::kChunk, T, threads()>(step);
    };
    if (step.width <= 64)
      of_delay(std::integral_constant<int, 64>());
    else
      of_delay(std::integral_constant<int, 128>());
  });
}

}  // namespace

TEST_CASE("the threads of a step of the delayed fast weights do together what the formula says") {
  check_each(delayed_memory_cases({1, 9}, {1, 2, 16, 50, 64, 65, 128}, {1, 2, 5, 16, 17, 64}),
             [](const DelayedMemoryCase& c) { check_delayed_memory<HostMemory>(c, run_on_cpu); });
}
