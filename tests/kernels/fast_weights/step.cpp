#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

template <typename T>
DeviceBuffer<T> upload(const std::vector<double>& x) {
  std::vector<T> host(x.size());
  std::transform(x.begin(), x.end(), host.begin(), [](double element) { return T(static_cast<float>(element)); });
  return host.empty() ? DeviceBuffer<T>() : DeviceBuffer<T>(host);
}

template <typename T>
void check_step(int rows, int heads, int width, Dtype dtype, const OtherRule& rule) {
  Case c{{rows, 1, heads, width}, dtype};
  c.write = rule.write, c.decay = rule.decay;
  c.ragged = false, c.states = true;
  INFO(c.name());
  const Problem problem = make_problem(c);
  const auto expected = delta_rule_reference(problem.input);
  const auto q = upload<T>(problem.input.q_BTHD), k = upload<T>(problem.input.k_BTHD),
             v = upload<T>(problem.input.v_BTHD), beta = upload<T>(problem.input.beta_BTH);
  auto state = upload<float>(problem.input.initial_state_BHKV);
  const auto log_decay = upload<float>(problem.input.log_decay_BTH);
  DeviceBuffer<T> output(q.size());
  check_cuda(cudaMemset(output.data(), 0xff, output.size() * sizeof(T)), "poison");
  delta_rule_step({rows, heads, width, dtype, static_cast<float>(problem.input.scale), q.data(), k.data(), v.data(),
                   beta.data(), state.data(), output.data(), rule.write, log_decay.data()},
                  nullptr);
  const auto output_host = output.to_host();
  const auto state_host = state.to_host();
  std::vector<double> actual(output_host.size());
  std::transform(output_host.begin(), output_host.end(), actual.begin(), [](T x) { return static_cast<float>(x); });
  // Only the output is rounded to bfloat16 (0.0017; 0.0023 over two elements); the state is float, with sums of at
  // most 128 terms. Of a state that is gone the output is what was just written, times a single q . k, which may all
  // but cancel.
  const double single = rule.decay == DecayKind::kStrong ? 1e-5 : 1e-6;
  CHECK(relative_error(actual, expected.output_BTHD) <= (dtype == Dtype::kFloat32 ? single : 0.003));
  CHECK(relative_error({state_host.begin(), state_host.end()}, expected.final_state_BHKV) <= 1e-6);
}

}  // namespace

TEST_CASE("a step equals the recurrence, for every rule, number of rows and width") {
  if (skip_without_gpu()) return;
  std::vector<OtherRule> rules{{FastWeightWrite::kDelta, DecayKind::kNone}};
  rules.insert(rules.end(), std::begin(kOtherRules), std::end(kOtherRules));
  for (const OtherRule& rule : rules)
    for (const int rows : {1, 2, 37})
      for (const int heads : {1, 3})
        for (const int width : {2, 16, 40, 50, 60, 64, 100, 126, 128}) {
          check_step<float>(rows, heads, width, Dtype::kFloat32, rule);
          check_step<__nv_bfloat16>(rows, heads, width, Dtype::kBfloat16, rule);
        }
}
