#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/kernels/fast_weights/hadamard_memory_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// Scratch, as what is written, begins as NaN.
HadamardMemoryResult run_on_gpu(const HadamardMemoryProblem& given) {
  DeviceBytes h_alone, last_alone;
  const HadamardMemoryResult result =
      run_hadamard_memory<DeviceMemory>(given, [&](const HadamardMemory& memory, const float* d_h, const float* d_last,
                                                   float* h, float* last, const HadamardMemoryGradient& gradient) {
        DeviceBytes checkpoints, scratch;
        poison(checkpoints, hadamard_memory_checkpoint_bytes(memory));
        poison(scratch, hadamard_memory_scratch_bytes(memory));
        hadamard_memory_forward(memory, h, last, checkpoints.data(), nullptr);
        hadamard_memory_backward(memory, {checkpoints.data(), d_h, d_last}, gradient, scratch.data(), nullptr);
        poison(h_alone, given.input.theta_BTH.size(), Dtype::kFloat32);
        poison(last_alone, given.input.first_BHH.size(), Dtype::kFloat32);
        hadamard_memory_forward(memory, floats(h_alone), floats(last_alone), nullptr, nullptr);
      });
  // Without checkpoints the outputs are the same.
  CHECK(h_alone.to_host() == bytes_of(result.h_BTH));
  CHECK(last_alone.to_host() == bytes_of(result.last_BHH));
  return result;
}

}  // namespace

TEST_CASE(
    "Stable Hadamard Memory's kernels equal the plain equations, forward and backward, for every width and length") {
  if (skip_without_gpu()) return;
  std::vector<HadamardMemoryCase> cases = hadamard_memory_cases();
  cases.push_back({32, 118, 48});
  cases.push_back({5, 781, 48, true, 0.1});
  check_each(cases, [](const HadamardMemoryCase& c) { check_hadamard_memory(c, run_on_gpu); });
}

TEST_CASE("small shapes: Stable Hadamard Memory, the same bits each time") {
  if (skip_without_gpu()) return;
  const HadamardMemoryProblem problem({3, 13, 50});
  CHECK(different_runs([&] { return run_on_gpu(problem).bits(); }, 2) == 0);
}
