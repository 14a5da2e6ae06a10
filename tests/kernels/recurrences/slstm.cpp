#include "kernels/recurrences/slstm/slstm.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <stdexcept>
#include <vector>

#include "tests/kernels/recurrences/slstm_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// What is written, and what is saved between the passes, begins as NaN.
SlstmResult run_on_gpu(const SlstmProblem& given) {
  const SlstmReferenceInput& in = given.input;
  std::vector<float> gates = single(in.gates_BTHX), recurrent = single(in.recurrent_HKX),
                     d_hidden = single(given.h_gradient_BTHK);
  std::vector<int> lengths = in.length_B;
  const std::size_t hidden = d_hidden.size();
  SlstmResult result{unwritten(hidden), unwritten(4 * hidden)};
  DeviceMemory memory;
  DeviceBytes saved_gates = poisoned(4 * hidden, Dtype::kFloat32), saved_cells = poisoned(3 * hidden, Dtype::kFloat32);
  const Slstm problem{in.batch, in.time, in.heads, in.width, memory(recurrent), memory(lengths)};
  const SlstmSaved saved{floats(saved_gates), floats(saved_cells)};
  slstm_forward(problem, memory(gates), memory(result.h_BTHK), saved, nullptr);
  slstm_backward(problem, saved, memory(d_hidden), memory(result.gates_gradient_BTHX), nullptr);
  memory.fetch();
  return result;
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
  CHECK(different_runs([&] { return run_on_gpu(problem).bits(); }, 2) == 0);
}

TEST_CASE("sLSTM's kernels refuse sizes outside of their contract") {
  if (skip_without_gpu()) return;
  for (const Slstm& problem :
       {Slstm{1, 1, 1, kMaxSlstmWidth + 1, nullptr, nullptr}, Slstm{0, 1, 1, 8, nullptr, nullptr},
        Slstm{1, 0, 1, 8, nullptr, nullptr}, Slstm{1, 1, 0, 8, nullptr, nullptr}})
    CHECK_THROWS_AS(slstm_forward(problem, nullptr, nullptr, {}, nullptr), std::runtime_error);
}
