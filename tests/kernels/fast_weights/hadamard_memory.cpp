#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <mutex>
#include <vector>

#include "tests/kernels/fast_weights/hadamard_memory_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// What is written, and what is scratch, begins as NaN.
HadamardMemoryResult run_on_gpu(const HadamardMemoryProblem& given) {
  const std::lock_guard lock(gpu_in_use);
  const HadamardMemoryReferenceInput& in = given.input;
  const auto vector = [](const std::vector<double>& x) { return DeviceBuffer<float>(floats(x)); };
  const DeviceBuffer<float> theta = vector(in.theta_BTH), c = vector(in.c_BTH), value = vector(in.value_BTH),
                            key = vector(in.key_BTH), query = vector(in.query_BTH), first = vector(in.first_BHH),
                            d_h = vector(given.output_gradient.h_BTH), d_last = vector(given.output_gradient.last_BHH);
  const DeviceBuffer<std::int64_t> lengths(std::vector<std::int64_t>(in.length_B.begin(), in.length_B.end()));
  const HadamardMemory memory{in.batch,
                              in.time,
                              in.width,
                              theta.data(),
                              c.data(),
                              value.data(),
                              key.data(),
                              query.data(),
                              first.data(),
                              lengths.data(),
                              static_cast<float>(in.limit)};
  const auto written = [](std::size_t size) { return DeviceBuffer<float>(poisoned(size)); };
  const auto of_bytes = [&](std::size_t bytes) { return written((bytes + sizeof(float) - 1) / sizeof(float)); };
  const std::size_t vectors = theta.size(), matrices = first.size();
  DeviceBuffer<float> h = written(vectors), last = written(matrices), d_theta = written(vectors),
                      d_c = written(vectors), d_value = written(vectors), d_key = written(vectors),
                      d_query = written(vectors), d_first = written(matrices),
                      checkpoints = of_bytes(hadamard_memory_checkpoint_bytes(memory)),
                      scratch = of_bytes(hadamard_memory_scratch_bytes(memory));
  hadamard_memory_forward(memory, h.data(), last.data(), checkpoints.data(), nullptr);
  hadamard_memory_backward(memory, {checkpoints.data(), d_h.data(), given.reads_last ? d_last.data() : nullptr},
                           {d_theta.data(), d_c.data(), d_value.data(), d_key.data(), d_query.data(), d_first.data()},
                           scratch.data(), nullptr);
  HadamardMemoryResult result{h.to_host(),       last.to_host(),  d_theta.to_host(), d_c.to_host(),
                              d_value.to_host(), d_key.to_host(), d_query.to_host(), d_first.to_host()};
  // Without checkpoints the outputs are the same.
  hadamard_memory_forward(memory, d_theta.data(), d_first.data(), nullptr, nullptr);
  CHECK(std::memcmp(d_theta.to_host().data(), result.h_BTH.data(), vectors * sizeof(float)) == 0);
  CHECK(std::memcmp(d_first.to_host().data(), result.last_BHH.data(), matrices * sizeof(float)) == 0);
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
  const HadamardMemoryResult first = run_on_gpu(problem), second = run_on_gpu(problem);
  const auto same = [](const std::vector<float>& a, const std::vector<float>& b) {
    return std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  CHECK(same(first.h_BTH, second.h_BTH));
  CHECK(same(first.last_BHH, second.last_BHH));
  CHECK(same(first.theta_BTH, second.theta_BTH));
  CHECK(same(first.c_BTH, second.c_BTH));
  CHECK(same(first.value_BTH, second.value_BTH));
  CHECK(same(first.key_BTH, second.key_BTH));
  CHECK(same(first.query_BTH, second.query_BTH));
  CHECK(same(first.first_BHH, second.first_BHH));
}
