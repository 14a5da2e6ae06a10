// Stable Hadamard Memory without a GPU: its definition, and what the threads of the kernels do, in turns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/fast_weights/hadamard_memory/walk.h"
#include "tests/kernels/common/check_slopes.h"
#include "tests/kernels/common/threads_in_turns.h"
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
  return run_hadamard_memory<HostMemory>(given, [](const HadamardMemory& memory, const float* d_h, const float* d_last,
                                                   float* h, float* last, const HadamardMemoryGradient& gradient) {
    const std::size_t matrices = static_cast<std::size_t>(memory.batch) * memory.width * memory.width;
    std::vector<float> before = unwritten(matrices * segments_of(memory.time)), behind = before;
    std::vector<std::uint8_t> kept(before.size());
    const ForwardProblem forward{memory, h, last, {before.data(), kept.data()}};
    const BackwardProblem backward{memory, {before.data(), kept.data()}, d_h, d_last, gradient, behind.data()};
    with_columns(memory.width, [&](auto columns) {
      const int sweeps = memory.batch * Sweep<columns()>::groups(memory.width);
      run_blocks<ForwardWalk<columns()>>(forward, sweeps, [](auto& threads) { walk_forward(threads); });
      run_blocks<GradientSweep<columns()>>(backward, sweeps, [](auto& threads) { sweep_gradient(threads); });
      run_blocks<SegmentWalk<columns()>>(backward, memory.batch * segments_of(memory.time),
                                         [](auto& threads) { walk_segment(threads); });
    });
  });
}

}  // namespace

TEST_CASE("the gradient of Stable Hadamard Memory's reference is the slope of its output") {
  HadamardMemoryProblem problem({3, 5, 3, true, 0.6, /*is_bounded=*/true});
  problem.input.length_B = {5, 3, 0};
  HadamardMemoryReferenceInput& in = problem.input;
  HadamardMemoryReferenceOutput& d = problem.output_gradient;
  for (Numbers* const x :
       {&in.theta_BTH, &in.c_BTH, &in.value_BTH, &in.key_BTH, &in.query_BTH, &in.first_BHH, &d.h_BTH})
    make_finite(*x, 0.5);
  const HadamardMemoryReferenceGradient gradient = hadamard_memory_reference_backward(in, d);
  check_slopes({in.theta_BTH, in.c_BTH, in.value_BTH, in.key_BTH, in.query_BTH, in.first_BHH},
               {gradient.theta_BTH, gradient.c_BTH, gradient.value_BTH, gradient.key_BTH, gradient.query_BTH,
                gradient.first_BHH},
               [&] {
                 const HadamardMemoryReferenceOutput output = hadamard_memory_reference(in);
                 return inner_product(output.h_BTH, d.h_BTH) + inner_product(output.last_BHH, d.last_BHH);
               });
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
