// Stable Hadamard Memory without a GPU: its definition, and what the threads of the kernels do, in turns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/fast_weights/hadamard_memory/walk.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/fast_weights/check_slopes.h"
#include "tests/kernels/fast_weights/hadamard_memory_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::hadamard_memory;

namespace {

template <class Walk, class Problem, class Loop>
void run_blocks(const Problem& problem, int blocks, const Loop& loop) {
  for (int i = 0; i < blocks; ++i)
    run_block<Walk, typename Walk::Shared>(problem, static_cast<unsigned>(i), Walk::kThreads, loop);
}

HadamardMemoryResult run_on_cpu(const HadamardMemoryProblem& given) {
  const HadamardMemoryReferenceInput& in = given.input;
  const std::vector<float> theta = floats(in.theta_BTH), c = floats(in.c_BTH), value = floats(in.value_BTH),
                           key = floats(in.key_BTH), query = floats(in.query_BTH), first = floats(in.first_BHH),
                           d_h = floats(given.output_gradient.h_BTH), d_last = floats(given.output_gradient.last_BHH);
  const std::vector<std::int64_t> lengths(in.length_B.begin(), in.length_B.end());
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
  const std::size_t vectors = theta.size(), matrices = first.size();
  std::vector<float> before = poisoned(matrices * segments_of(in.time)), behind = before;
  std::vector<std::uint8_t> kept(before.size());
  HadamardMemoryResult result{poisoned(vectors), poisoned(matrices), poisoned(vectors), poisoned(vectors),
                              poisoned(vectors), poisoned(vectors),  poisoned(vectors), poisoned(matrices)};
  const ForwardProblem forward_problem{
      memory, result.h_BTH.data(), result.last_BHH.data(), {before.data(), kept.data()}};
  const BackwardProblem backward_problem{memory,
                                         {before.data(), kept.data()},
                                         d_h.data(),
                                         given.reads_last ? d_last.data() : nullptr,
                                         {result.theta_BTH.data(), result.c_BTH.data(), result.value_BTH.data(),
                                          result.key_BTH.data(), result.query_BTH.data(), result.first_BHH.data()},
                                         behind.data()};
  with_columns(in.width, [&](auto columns) {
    const int sweeps = memory.batch * Sweep<columns()>::groups(memory.width);
    run_blocks<ForwardWalk<columns()>>(forward_problem, sweeps, [](auto& threads) { walk_forward(threads); });
    run_blocks<GradientSweep<columns()>>(backward_problem, sweeps, [](auto& threads) { sweep_gradient(threads); });
    run_blocks<SegmentWalk<columns()>>(backward_problem, memory.batch * segments_of(memory.time),
                                       [](auto& threads) { walk_segment(threads); });
  });
  return result;
}

}  // namespace

TEST_CASE("the gradient of Stable Hadamard Memory's reference is the slope of its output") {
  HadamardMemoryProblem problem({3, 5, 3, true, 0.6, /*is_bounded=*/true});
  problem.input.length_B = {5, 3, 0};
  const auto finite = [](std::vector<double>& x) {
    for (double& element : x)
      if (std::isnan(element)) element = 0.5;
  };
  HadamardMemoryReferenceInput& in = problem.input;
  const std::vector<std::vector<double>*> inputs = {&in.theta_BTH, &in.c_BTH,     &in.value_BTH,
                                                    &in.key_BTH,   &in.query_BTH, &in.first_BHH};
  for (std::vector<double>* const x : inputs) finite(*x);
  finite(problem.output_gradient.h_BTH);
  const auto loss = [&] {
    const HadamardMemoryReferenceOutput output = hadamard_memory_reference(in), &d = problem.output_gradient;
    return std::inner_product(output.h_BTH.begin(), output.h_BTH.end(), d.h_BTH.begin(), 0.0) +
           std::inner_product(output.last_BHH.begin(), output.last_BHH.end(), d.last_BHH.begin(), 0.0);
  };
  const HadamardMemoryReferenceGradient gradient = hadamard_memory_reference_backward(in, problem.output_gradient);
  const std::vector<const std::vector<double>*> slopes = {&gradient.theta_BTH, &gradient.c_BTH,
                                                          &gradient.value_BTH, &gradient.key_BTH,
                                                          &gradient.query_BTH, &gradient.first_BHH};
  check_slopes(inputs, slopes, loss);
}

TEST_CASE("the threads of Stable Hadamard Memory do together what the formula says, forward and backward") {
  check_each(hadamard_memory_cases(), [](const HadamardMemoryCase& c) { check_hadamard_memory(c, run_on_cpu); });
}

TEST_CASE("the bound keeps what is within the limit, the limit included, and a NaN") {
  constexpr float kNaN = std::numeric_limits<float>::quiet_NaN(), kInfinity = std::numeric_limits<float>::infinity();
  for (const float m : {0.0f, -3.0f, 3.0f}) {
    CHECK(bounded(m, 3) == m);
    CHECK(is_kept(m, 3));
  }
  CHECK(bounded(3.5f, 3) == 3);
  CHECK(bounded(-kInfinity, 3) == -3);
  CHECK(!is_kept(3.5f, 3));
  CHECK(!is_kept(-kInfinity, 3));
  CHECK(std::isnan(bounded(kNaN, 3)));
  CHECK(is_kept(kNaN, 3));
  CHECK(is_kept(kInfinity, kInfinity));
}

TEST_CASE("a calibration is 1 + tanh, exactly 1 where nothing is calibrated, and never beyond 0 and 2") {
  CHECK(calibration(exponent_of(0), 0) == 1);
  CHECK(calibration(exponent_of(3e38f), 1) == 2);
  CHECK(calibration(exponent_of(3e38f), -1) == 0);
  for (const double x : {-9.0, -1.0, -1e-3, 1e-3, 0.5, 9.0}) {
    const double expected = 1 + std::tanh(x);
    CHECK(std::abs(calibration(exponent_of(static_cast<float>(x)), 1) / expected - 1) < 1e-5);
  }
}
