// The delta rule with a decay for each key channel without a GPU: its definition, and what the threads of the kernels
// do, in turns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>

#include "kernels/fast_weights/vector_decay/delta_walk.h"
#include "tests/kernels/common/check_slopes.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/fast_weights/vector_delta_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::vector_decay;

namespace {

template <DeltaRole kRole>
void run_walk(const DeltaProblem& problem) {
  const VectorDecay& given = problem.given.sum;
  with_sixteens(given.key_width, [&](auto lanes) {
    using OneWalk = DeltaWalk<kRole, lanes()>;
    const int blocks = given.batch * given.heads * OneWalk::groups(given);
    for (int i = 0; i < blocks; ++i)
      run_block<OneWalk, typename OneWalk::Shared>(problem, static_cast<unsigned>(i), OneWalk::kThreads,
                                                   [](auto& threads) { walk_delta_block<OneWalk>(threads); });
  });
}

VectorDeltaResult run_on_cpu(const VectorDeltaProblem& problem) {
  return run_vector_delta<HostMemory>(
      problem, [](const VectorDelta& delta, const float* d_output, float* output, float* error, float* d_written) {
        const DeltaProblem all{delta, output, error, d_output, d_written};
        run_walk<DeltaRole::kForward>(all);
        run_walk<DeltaRole::kBackward>(all);
      });
}

}  // namespace

// A value is written times its strength: its slope is that of what is written, times the strength.
TEST_CASE("the reference's gradient of what the delta rule writes is the slope of its output") {
  VectorDeltaProblem problem({3, 5, 2, 3, 2, 0.5});
  VectorDecayReferenceInput& in = problem.input;
  Numbers &d_output = problem.output_gradient_BTHV, &strength = problem.strength_BTH;
  in.length_B = {5, 3, 0};
  for (Numbers* const x : {&in.query_BTHK, &in.key_BTHK, &in.value_BTHV, &in.log_decay_BTHK, &d_output})
    make_finite(*x, -0.5);
  make_finite(strength, 0.7);
  Numbers gradient = vector_delta_reference_backward(in, strength, d_output);
  for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= strength[i / in.value_width];
  check_slopes({in.value_BTHV}, {gradient},
               [&] { return inner_product(vector_delta_reference(in, strength).output_BTHV, d_output); });
}

TEST_CASE("the threads of the delta rule with decays a channel do together what the formula says, both ways") {
  check_each(vector_decay_cases(), [](const VectorDecayCase& c) { check_vector_delta(c, run_on_cpu); });
}
