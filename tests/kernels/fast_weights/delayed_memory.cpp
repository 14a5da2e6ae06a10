#include "kernels/fast_weights/delayed_memory/delayed_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <list>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/kernels/fast_weights/delayed_memory_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void run_on_gpu(const DelayedMemoryCase& c, const DelayedMemoryReference& reference, DelayedMemoryImages& images) {
  const std::lock_guard lock(gpu_in_use);
  std::list<std::pair<std::vector<unsigned char>*, DeviceBuffer<unsigned char>>> buffers;
  const DeviceBuffer<std::int64_t> position_N(images.position_N);
  const auto on_device = [&](std::vector<unsigned char>& image) {
    return buffers.emplace_back(&image, DeviceBuffer<unsigned char>(image)).second.data();
  };
  delayed_memory_step(step_of(c, reference, on_device, position_N.data(), images), nullptr);
  check_cuda(cudaDeviceSynchronize(), "run");
  for (auto& [image, buffer] : buffers) *image = buffer.to_host();
  CHECK(position_N.to_host() == images.position_N);
}

}  // namespace

TEST_CASE("a step of the delayed fast weights equals the formula, for every number of rows, width and ring") {
  if (skip_without_gpu()) return;
  check_each(delayed_memory_cases({1, 2, 37}, {1, 2, 16, 40, 50, 64, 65, 100, 128}, {1, 2, 5, 16, 17, 64, 100}),
             [](const DelayedMemoryCase& c) { check_delayed_memory(c, run_on_gpu); });
}

TEST_CASE("small shapes: delayed fast weights") {
  if (skip_without_gpu()) return;
  for (const DelayedMemoryCase& c : delayed_memory_cases({3}, {50, 128}, {5, 33})) check_delayed_memory(c, run_on_gpu);
}
