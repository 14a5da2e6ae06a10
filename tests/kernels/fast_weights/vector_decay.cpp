#include "kernels/fast_weights/vector_decay/vector_decay.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <limits>
#include <mutex>
#include <vector>

#include "tests/kernels/fast_weights/vector_decay_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// What is written begins as NaN.
VectorDecayResult run_on_gpu(const VectorDecayProblem& problem) {
  const std::lock_guard lock(gpu_in_use);
  const VectorDecayReferenceInput& in = problem.input;
  const auto given = [](const std::vector<double>& x) { return DeviceBuffer<float>(single(x)); };
  const DeviceBuffer<float> query = given(in.query_BTHK), key = given(in.key_BTHK), value = given(in.value_BTHV),
                            log_decay = given(in.log_decay_BTHK), d_output = given(problem.output_gradient_BTHV);
  const DeviceBuffer<std::int64_t> lengths(std::vector<std::int64_t>(in.length_B.begin(), in.length_B.end()));
  const auto written = [](std::size_t size) {
    return DeviceBuffer<float>(std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()));
  };
  DeviceBuffer<float> output = written(value.size()), d_query = written(key.size()), d_key = written(key.size()),
                      d_value = written(value.size()), d_log_decay = written(key.size());
  const VectorDecay decay{
      in.batch,     in.time,    in.heads,     in.key_width,     in.value_width, static_cast<float>(in.scale),
      query.data(), key.data(), value.data(), log_decay.data(), lengths.data()};
  vector_decay_forward(decay, output.data(), nullptr);
  vector_decay_backward(decay, d_output.data(), {d_query.data(), d_key.data(), d_value.data(), d_log_decay.data()},
                        nullptr);
  return {output.to_host(), d_query.to_host(), d_key.to_host(), d_value.to_host(), d_log_decay.to_host()};
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
  const VectorDecayResult first = run_on_gpu(problem), second = run_on_gpu(problem);
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  CHECK(same(first.output_BTHV, second.output_BTHV));
  CHECK(same(first.query_BTHK, second.query_BTHK));
  CHECK(same(first.key_BTHK, second.key_BTHK));
  CHECK(same(first.value_BTHV, second.value_BTHV));
  CHECK(same(first.log_decay_BTHK, second.log_decay_BTHK));
}
