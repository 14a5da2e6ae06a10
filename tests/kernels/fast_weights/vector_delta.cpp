#include <doctest/doctest.h>

#include <vector>

#include "tests/kernels/fast_weights/vector_delta_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

VectorDeltaResult run_on_gpu(const VectorDeltaProblem& problem) {
  return run_vector_delta<DeviceMemory>(
      problem, [](const VectorDelta& delta, const float* d_output, float* output, float* error, float* d_written) {
        vector_delta_forward(delta, output, error, nullptr);
        vector_delta_backward(delta, d_output, d_written, nullptr);
      });
}

}  // namespace

TEST_CASE("the delta rule with a decay for each key channel equals the plain equations, for every width and length") {
  if (skip_without_gpu()) return;
  std::vector<VectorDecayCase> cases = vector_decay_cases();
  cases.push_back({32, 118, 2, 32, 32});
  cases.push_back({5, 781, 2, 50, 50, 0.02});
  check_each(cases, [](const VectorDecayCase& c) { check_vector_delta(c, run_on_gpu); });
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: the delta rule with a decay for each key channel, the same bits each time") {
  if (skip_without_gpu()) return;
  for (const int width : {9, 25, 50, 100}) {
    const VectorDeltaProblem problem({3, 21, 2, width, 50});
    CHECK(different_runs([&] { return run_on_gpu(problem).bits(); }, 2) == 0);
  }
}
