// parallel_for: independent pieces of work spread over the processors.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <future>
#include <vector>

#include "base/machine/processors.h"

namespace engram {

// Calls work(i) once for every i of [0, count), in no order, and waits for all. Rethrows what one of them throws.
template <class Work>
void parallel_for(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::future<void>> helpers;  // their destructors wait, too
  const std::size_t threads = std::min(count, static_cast<std::size_t>(available_processors()));
  for (std::size_t i = 1; i < threads; ++i) helpers.push_back(std::async(std::launch::async, take));
  take();
  for (std::future<void>& helper : helpers) helper.get();
}

}  // namespace engram
