#include "kernels/fast_weights/vector_decay/vector_decay.h"

#include <doctest/doctest.h>

#include <vector>

#include "tests/kernels/fast_weights/vector_decay_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

VectorDecayResult run_on_gpu(const VectorDecayProblem& problem) {
  return run_vector_decay<DeviceMemory>(
      problem, [](const VectorDecay& decay, const float* d_output, float* output, const VectorDecayGradient& gradient) {
        vector_decay_forward(decay, output, nullptr);
        vector_decay_backward(decay, d_output, gradient, nullptr);
      });
}

}  // namespace

TEST_CASE("fast weights with a decay for each key channel equal the plain equations, for every width and length") {
  if (skip_without_gpu()) return;
  std::vector<VectorDecayCase> cases = vector_decay_cases();
  cases.push_back({32, 118, 2, 16, 32});
  cases.push_back({5, 781, 2, 25, 50, 0.02});
  check_each(cases, [](const VectorDecayCase& c) { check_vector_decay(c, run_on_gpu); });
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: a decay for each key channel, the same bits each time") {
  if (skip_without_gpu()) return;
  const VectorDecayProblem problem({3, 21, 2, 25, 50});
  CHECK(different_runs([&] { return run_on_gpu(problem).bits(); }, 2) == 0);
}
