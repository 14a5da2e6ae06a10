// A step of the delayed fast weights without a GPU: what the threads of the kernel do, in turns.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "kernels/fast_weights/delayed_memory/walk.h"
#include "tests/kernels/fast_weights/delayed_memory_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::delayed_memory;

namespace {

// What the threads do between two barriers, in an order that is not that of their numbers.
template <Delay kDelay, typename T, int kThreads>
void walk_block(const Problem<T>& problem, unsigned block) {
  std::vector<Walk<kDelay, T, kThreads>> threads;
  for (unsigned i = 0; i < kThreads; ++i) threads.emplace_back(problem, block, i);
  const auto shared = std::make_unique<Shared<kDelay, kThreads>>();
  const auto each = [&](const auto& work) {
    for (int i = kThreads - 1; i >= 0; --i) work(threads[i]);
  };
  each([&](auto& thread) { thread.begin(*shared); });
  if constexpr (kDelay == Delay::kChunk) each([&](auto& thread) { thread.read(*shared); });
  for (int tile = 0; tile < threads[0].tiles(); ++tile) {
    each([&](auto& thread) { thread.stage(tile, *shared); });
    each([&](auto& thread) { thread.write(tile, *shared); });
  }
  if constexpr (kDelay == Delay::kStream) each([&](auto& thread) { thread.read(*shared); });
  each([&](auto& thread) { thread.end(); });
}

template <typename T, int kThreads>
void run_threads(const DelayedMemoryStep& step) {
  const Problem<T> problem = problem_of<T>(step);
  for (unsigned block = 0; block < static_cast<unsigned>(step.rows * step.heads); ++block)
    if (step.delay == Delay::kStream)
      walk_block<Delay::kStream, T, kThreads>(problem, block);
    else
      walk_block<Delay::kChunk, T, kThreads>(problem, block);
}

void run_on_cpu(const DelayedMemoryCase& c, const DelayedMemoryReference& reference, DelayedMemoryImages& images) {
  const DelayedMemoryStep step = step_of(
      c, reference, [](std::vector<unsigned char>& image) { return image.data(); }, images.position_N.data(), images);
  dispatch_dtype(c.dtype, [&](auto element) {
    using T = decltype(element);
    if (c.width <= 64)
      run_threads<T, 64>(step);
    else
      run_threads<T, 128>(step);
  });
}

}  // namespace

TEST_CASE("the threads of a step of the delayed fast weights do together what the formula says") {
  check_each(delayed_memory_cases({1, 9}, {1, 2, 16, 50, 64, 65, 128}, {1, 2, 5, 16, 17, 64}),
             [](const DelayedMemoryCase& c) { check_delayed_memory(c, run_on_cpu); });
}
