#include <doctest/doctest.h>

#include <iterator>
#include <vector>

#include "tests/kernels/fast_weights/delta_rule_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

void check_step(int rows, int heads, int width, Dtype dtype, const OtherRule& rule) {
  Case c{{rows, 1, heads, width}, dtype};
  c.write = rule.write, c.decay = rule.decay;
  c.ragged = false, c.states = true;
  INFO(c.name());
  const DeltaRuleReferenceInput in = make_problem(c).input;
  const auto expected = delta_rule_reference(in);
  const DeviceBytes q = upload(in.q_BTHD, dtype), k = upload(in.k_BTHD, dtype), v = upload(in.v_BTHD, dtype),
                    beta = upload(in.beta_BTH, dtype), log_decay = upload(in.log_decay_BTH, Dtype::kFloat32);
  DeviceBytes state = upload(in.initial_state_BHKV, Dtype::kFloat32), output = poisoned(in.q_BTHD.size(), dtype);
  delta_rule_step({rows, heads, width, dtype, static_cast<float>(in.scale), q.data(), k.data(), v.data(), beta.data(),
                   floats(state), output.data(), rule.write, floats(log_decay)},
                  nullptr);
  // Only the output is rounded to bfloat16 (0.0017; 0.0023 over two elements); the state is float, with sums of at
  // most 128 terms. Of a state that is gone the output is what was just written, times a single q . k, which may all
  // but cancel.
  const double single = rule.decay == DecayKind::kStrong ? 1e-5 : 1e-6;
  CHECK(relative_error(download(output, dtype), expected.output_BTHD) <= (dtype == Dtype::kFloat32 ? single : 0.003));
  CHECK(relative_error(download(state, Dtype::kFloat32), expected.final_state_BHKV) <= 1e-6);
}

}  // namespace

TEST_CASE("a step equals the recurrence, for every rule, number of rows and width") {
  if (skip_without_gpu()) return;
  std::vector<OtherRule> rules{{FastWeightWrite::kDelta, DecayKind::kNone}};
  rules.insert(rules.end(), std::begin(kOtherRules), std::end(kOtherRules));
  for (const OtherRule& rule : rules)
    for (const int rows : {1, 2, 37})
      for (const int heads : {1, 3})
        for (const int width : {2, 16, 40, 50, 60, 64, 100, 126, 128})
          for (const Dtype dtype : kDtypes) check_step(rows, heads, width, dtype, rule);
}
