// The sum rule with a decay for each key channel without a GPU: its definition, and what the threads of the kernels do,
// in turns.
#include <doctest/doctest.h>

#include "kernels/fast_weights/vector_decay/walk.h"
#include "tests/kernels/common/check_slopes.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/fast_weights/vector_decay_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::vector_decay;

namespace {

template <Role kRole>
void run_walk(const Problem& problem) {
  const VectorDecay& given = problem.given;
  with_sixteens(has_rows_of_keys(kRole) ? given.value_width : given.key_width, [&](auto part) {
    using OneWalk = Walk<kRole, part()>;
    const int blocks = given.batch * given.heads * OneWalk::groups(given);
    for (int i = 0; i < blocks; ++i)
      run_block<OneWalk, typename OneWalk::Shared>(problem, static_cast<unsigned>(i), OneWalk::kThreads,
                                                   [](auto& threads) { walk_block<kRole>(threads); });
  });
}

VectorDecayResult run_on_cpu(const VectorDecayProblem& problem) {
  return run_vector_decay<HostMemory>(
      problem, [](const VectorDecay& decay, const float* d_output, float* output, const VectorDecayGradient& gradient) {
        const Problem all{decay, d_output, output, gradient};
        run_walk<Role::kOutput>(all);
        run_walk<Role::kQuery>(all);
        run_walk<Role::kKey>(all);
        run_walk<Role::kValue>(all);
      });
}

}  // namespace

TEST_CASE("the gradient of the reference with a decay for each key channel is the slope of its output") {
  VectorDecayProblem problem({3, 5, 2, 3, 2, 0.5});
  VectorDecayReferenceInput& in = problem.input;
  Numbers& d_output = problem.output_gradient_BTHV;
  in.length_B = {5, 3, 0};
  for (Numbers* const x : {&in.query_BTHK, &in.key_BTHK, &in.value_BTHV, &in.log_decay_BTHK, &d_output})
    make_finite(*x, -0.5);
  const VectorDecayReferenceGradient gradient = vector_decay_reference_backward(in, d_output);
  check_slopes({in.query_BTHK, in.key_BTHK, in.value_BTHV, in.log_decay_BTHK},
               {gradient.query_BTHK, gradient.key_BTHK, gradient.value_BTHV, gradient.log_decay_BTHK},
               [&] { return inner_product(vector_decay_reference(in), d_output); });
}

TEST_CASE("the threads of a decay for each key channel do together what the formula says, forward and backward") {
  check_each(vector_decay_cases(), [](const VectorDecayCase& c) { check_vector_decay(c, run_on_cpu); });
}
