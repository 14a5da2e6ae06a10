#include "kernels/recurrences/slstm/slstm.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>
#include <mutex>
#include <stdexcept>
#include <vector>

#include "tests/kernels/recurrences/slstm_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }

// What is written begins as NaN.
SlstmResult run_on_gpu(const SlstmProblem& given) {
  const std::lock_guard lock(gpu_in_use);
  const SlstmReferenceInput& in = given.input;
  const std::size_t hidden = given.h_gradient_BTHK.size();
  const auto poisoned = [](std::size_t size) {
    return DeviceBuffer<float>(std::vector<float>(size, std::numeric_limits<float>::quiet_NaN()));
  };
  const DeviceBuffer<float> gates(floats(in.gates_BTHX)), recurrent(floats(in.recurrent_HKX)),
      d_hidden(floats(given.h_gradient_BTHK));
  const DeviceBuffer<int> lengths(in.length_B);
  DeviceBuffer<float> h = poisoned(hidden), d_gates = poisoned(4 * hidden), saved_gates = poisoned(4 * hidden),
                      saved_cells = poisoned(3 * hidden);
  const Slstm problem{in.batch, in.time, in.heads, in.width, recurrent.data(), lengths.data()};
  const SlstmSaved saved{saved_gates.data(), saved_cells.data()};
  slstm_forward(problem, gates.data(), h.data(), saved, nullptr);
  slstm_backward(problem, saved, d_hidden.data(), d_gates.data(), nullptr);
  check_cuda(cudaDeviceSynchronize(), "run");
  return {h.to_host(), d_gates.to_host()};
}

}  // namespace

TEST_CASE("sLSTM's kernels equal the plain equations, forward and backward, for every width and length") {
  if (skip_without_gpu()) return;
  std::vector<SlstmCase> cases;
  for (const int width : {1, 2, 15, 16, 17, 31, 32, 33, 48, 50, 63, 64})
    for (const int time : {1, 2, 3, 4, 5, 9, 30}) cases.push_back({3, time, 2, width});
  cases.push_back({5, 781, 2, 50, 2, 0.3});
  cases.push_back({70, 20, 4, 25});
  cases.push_back({2, 40, 1, 64, 8});
  check_each(cases, [](const SlstmCase& c) { check_slstm(c, run_on_gpu); });
}

TEST_CASE("small shapes: sLSTM, the same bits each time") {
  if (skip_without_gpu()) return;
  const SlstmProblem problem({3, 13, 2, 50});
  const SlstmResult first = run_on_gpu(problem), second = run_on_gpu(problem);
  CHECK(std::memcmp(first.h_BTHK.data(), second.h_BTHK.data(), first.h_BTHK.size() * sizeof(float)) == 0);
  CHECK(std::memcmp(first.gates_gradient_BTHX.data(), second.gates_gradient_BTHX.data(),
                    first.gates_gradient_BTHX.size() * sizeof(float)) == 0);
}

TEST_CASE("sLSTM's kernels refuse sizes outside of their contract") {
  if (skip_without_gpu()) return;
  for (const Slstm& problem :
       {Slstm{1, 1, 1, kMaxSlstmWidth + 1, nullptr, nullptr}, Slstm{0, 1, 1, 8, nullptr, nullptr},
        Slstm{1, 0, 1, 8, nullptr, nullptr}, Slstm{1, 1, 0, 8, nullptr, nullptr}})
    CHECK_THROWS_AS(slstm_forward(problem, nullptr, nullptr, {}, nullptr), std::runtime_error);
}
