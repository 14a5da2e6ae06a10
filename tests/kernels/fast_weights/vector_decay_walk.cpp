// The sum rule with a decay for each key channel without a GPU: its definition, and what the threads of the kernels do,
// in turns.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "kernels/fast_weights/vector_decay/walk.h"
#include "tests/kernels/common/threads_in_turns.h"
#include "tests/kernels/fast_weights/check_slopes.h"
#include "tests/kernels/fast_weights/vector_decay_case.h"

using namespace engram;
using namespace engram::testing;
using namespace engram::vector_decay;

namespace {

template <Role kRole>
void run_walk(const Problem& problem) {
  const VectorDecay& given = problem.given;
  with_part(has_rows_of_keys(kRole) ? given.value_width : given.key_width, [&](auto part) {
    using OneWalk = Walk<kRole, part()>;
    const int blocks = given.batch * given.heads * OneWalk::groups(given);
    for (int i = 0; i < blocks; ++i)
      run_block<OneWalk, typename OneWalk::Shared>(problem, static_cast<unsigned>(i), OneWalk::kThreads,
                                                   [](auto& threads) { walk_block<kRole>(threads); });
  });
}

VectorDecayResult run_on_cpu(const VectorDecayProblem& problem) {
  const VectorDecayReferenceInput& in = problem.input;
  const std::vector<float> query = single(in.query_BTHK), key = single(in.key_BTHK), value = single(in.value_BTHV),
                           log_decay = single(in.log_decay_BTHK), d_output = single(problem.output_gradient_BTHV);
  const std::vector<std::int64_t> lengths(in.length_B.begin(), in.length_B.end());
  const VectorDecay given{
      in.batch,     in.time,    in.heads,     in.key_width,     in.value_width, static_cast<float>(in.scale),
      query.data(), key.data(), value.data(), log_decay.data(), lengths.data()};
  const auto poisoned = [](std::size_t size) {
    return std::vector<float>(size, std::numeric_limits<float>::quiet_NaN());
  };
  VectorDecayResult result{poisoned(value.size()), poisoned(key.size()), poisoned(key.size()), poisoned(value.size()),
                           poisoned(key.size())};
  const Problem all{
      given,
      d_output.data(),
      result.output_BTHV.data(),
      {result.query_BTHK.data(), result.key_BTHK.data(), result.value_BTHV.data(), result.log_decay_BTHK.data()}};
  run_walk<Role::kOutput>(all);
  run_walk<Role::kQuery>(all);
  run_walk<Role::kKey>(all);
  run_walk<Role::kValue>(all);
  return result;
}

}  // namespace

TEST_CASE("the gradient of the reference with a decay for each key channel is the slope of its output") {
  VectorDecayProblem problem({3, 5, 2, 3, 2, 0.5});
  VectorDecayReferenceInput& in = problem.input;
  in.length_B = {5, 3, 0};
  const std::vector<std::vector<double>*> inputs = {&in.query_BTHK, &in.key_BTHK, &in.value_BTHV, &in.log_decay_BTHK};
  const auto finite = [](std::vector<double>& x) {
    for (double& element : x)
      if (std::isnan(element)) element = -0.5;
  };
  for (std::vector<double>* const x : inputs) finite(*x);
  finite(problem.output_gradient_BTHV);
  const auto loss = [&] {
    const std::vector<double> output = vector_decay_reference(in);
    return std::inner_product(output.begin(), output.end(), problem.output_gradient_BTHV.begin(), 0.0);
  };
  const VectorDecayReferenceGradient gradient = vector_decay_reference_backward(in, problem.output_gradient_BTHV);
  const std::vector<const std::vector<double>*> slopes = {&gradient.query_BTHK, &gradient.key_BTHK,
                                                          &gradient.value_BTHV, &gradient.log_decay_BTHK};
  check_slopes(inputs, slopes, loss);
}

TEST_CASE("the threads of a decay for each key channel do together what the formula says, forward and backward") {
  check_each(vector_decay_cases(), [](const VectorDecayCase& c) { check_vector_decay(c, run_on_cpu); });
}
