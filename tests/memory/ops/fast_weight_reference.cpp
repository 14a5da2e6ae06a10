// What the kernels of fast weights are tested against is what LibTorch's operations compute.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/fast_weights/delta_rule/reference.h"
#include "memory/ops/fast_weight_ops.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

std::vector<double> numbers(const Tensor& x) {
  const Tensor own = x.detach().contiguous();
  return {own.const_data_ptr<double>(), own.const_data_ptr<double>() + own.numel()};
}

}  // namespace

TEST_CASE("the reference of the kernels computes what LibTorch's operations compute, gradients included") {
  torch::manual_seed(11);
  constexpr std::int64_t kBatch = 3, kSteps = 70, kHeads = 2, kWidth = 6;
  const std::vector<int> row_lengths{70, 0, 33};
  const Tensor lengths_B = lengths({70, 0, 33});
  const Tensor valid_BT11 = (torch::arange(kSteps) < lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
  const auto vectors = [&] { return torch::randn({kBatch, kSteps, kHeads, kWidth}, torch::kFloat64); };
  const auto scalars = [&] { return torch::rand({kBatch, kSteps, kHeads}, torch::kFloat64); };
  for (const bool delta : {true, false})
    for (const double strength : {0.0, 0.1, 20.0}) {  // 0: no decay
      CAPTURE(delta);
      CAPTURE(strength);
      const Tensor key =
          torch::nn::functional::normalize(vectors(), torch::nn::functional::NormalizeFuncOptions().dim(-1));
      std::vector<Tensor> leaves{vectors(), key, vectors(), 2 * scalars(),
                                 torch::randn({kBatch, kHeads, kWidth, kWidth}, torch::kFloat64)};
      if (strength > 0) leaves.push_back(-strength * scalars());
      for (Tensor& x : leaves) x.requires_grad_();
      FastWeightInput in{leaves[0], leaves[1], leaves[2], leaves[3], {}};
      if (strength > 0) in.log_decay = leaves[5].unsqueeze(3);
      const FastWeightResult result = fast_weights({delta}, in, {leaves[4], {}, {}}, lengths_B);
      const Tensor output = result.output_BTHV * valid_BT11, end = result.state.weights_BHKV;
      const Tensor d_output = vectors() * valid_BT11, d_end = torch::randn_like(end);
      const auto d = torch::autograd::grad({(output * d_output).sum() + (end * d_end).sum()}, leaves);

      DeltaRuleReferenceInput reference{{kBatch, kSteps, kHeads, kWidth},
                                        1 / std::sqrt(double{kWidth}),
                                        numbers(leaves[0]),
                                        numbers(leaves[1]),
                                        numbers(leaves[2]),
                                        numbers(leaves[3]),
                                        row_lengths,
                                        numbers(leaves[4]),
                                        delta ? FastWeightWrite::kDelta : FastWeightWrite::kSum};
      if (strength > 0) reference.log_decay_BTH = numbers(leaves[5]);
      const auto expected = delta_rule_reference(reference);
      const auto slope = delta_rule_reference_backward(reference, {numbers(d_output), numbers(d_end)});
      const auto check = [](const Tensor& actual, const std::vector<double>& wanted) {
        const Tensor other = torch::tensor(wanted, torch::kFloat64).view(actual.sizes());
        CHECK(relative_error(other, actual.detach()) < 1e-10);
      };
      check(output, expected.output_BTHD);
      check(end, expected.final_state_BHKV);
      check(d[0], slope.q_BTHD);
      check(d[1], slope.k_BTHD);
      check(d[2], slope.v_BTHD);
      check(d[3], slope.beta_BTH);
      check(d[4], slope.initial_state_BHKV);
      if (strength > 0) check(d[5], slope.log_decay_BTH);
    }
}
