// The fast weights' operation at the limits of its numbers: decays that forget everything in a step, write strengths
// beyond the range of float32, chunks that do not divide the time.
#include "memory/ops/fast_weight_ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kInputBatch = 3, kInputHeads = 2, kKeys = 5, kValues = 7;

// Of positive features, with decays of about e^-strength.
FastWeightInput random_input(std::int64_t steps, std::int64_t decay_channels, double strength) {
  FastWeightInput in;
  in.query = random_doubles({kInputBatch, steps, kInputHeads, kKeys}).abs() + 0.1;
  in.key = torch::nn::functional::normalize(random_doubles({kInputBatch, steps, kInputHeads, kKeys}).abs(),
                                            torch::nn::functional::NormalizeFuncOptions().dim(-1));
  in.value = random_doubles({kInputBatch, steps, kInputHeads, kValues});
  in.write = 2 * torch::sigmoid(random_doubles({kInputBatch, steps, kInputHeads}));
  if (decay_channels > 0)
    in.log_decay = -strength * torch::rand({kInputBatch, steps, kInputHeads, decay_channels}, torch::kFloat64);
  return in;
}

FastWeightState random_state(const FastWeightRule& rule) {
  FastWeightState state{random_doubles({kInputBatch, kInputHeads, kKeys, kValues}), {}, {}};
  if (rule.attention_norm != AttentionNorm::kNone)
    state.key_sum_BHK = random_doubles({kInputBatch, kInputHeads, kKeys}).abs();
  if (rule.log_write) state.log_scale_BH = random_doubles({kInputBatch, kInputHeads}).abs();
  return state;
}

std::vector<Tensor> tensors_of(const FastWeightState& state) {
  std::vector<Tensor> all{state.weights_BHKV};
  for (const Tensor& more : {state.key_sum_BHK, state.log_scale_BH})
    if (more.defined()) all.push_back(more);
  return all;
}

FastWeightState clone(const FastWeightState& state, torch::ScalarType dtype = torch::kFloat64) {
  const auto copy = [&](const Tensor& x) { return x.defined() ? x.to(dtype).clone() : x; };
  return {copy(state.weights_BHKV), copy(state.key_sum_BHK), copy(state.log_scale_BH)};
}

FastWeightInput in_type(const FastWeightInput& in, torch::ScalarType dtype) {
  return {in.query.to(dtype), in.key.to(dtype), in.value.to(dtype), in.write.to(dtype),
          in.log_decay.defined() ? in.log_decay.to(dtype) : in.log_decay};
}

FastWeightInput at_step(const FastWeightInput& in, std::int64_t t) {
  return {in.query.select(1, t), in.key.select(1, t), in.value.select(1, t), in.write.select(1, t),
          in.log_decay.defined() ? in.log_decay.select(1, t) : in.log_decay};
}

const std::vector<FastWeightRule> kRules = {
    {false, AttentionNorm::kNone, false},       {false, AttentionNorm::kSum, false},
    {false, AttentionNorm::kAtLeastOne, false}, {false, AttentionNorm::kAtLeastOne, true},
    {true, AttentionNorm::kNone, false},        {true, AttentionNorm::kSum, false}};

}  // namespace

// Decays of e^-40 a step and e^-2000: within two steps, and in one, products of them leave the range of float32, and
// within twenty steps that of float64.
TEST_CASE("fast weights in chunks equal their steps, however fast they forget") {
  torch::manual_seed(1);
  for (const FastWeightRule& rule : kRules)
    for (const std::int64_t channels : {std::int64_t{0}, std::int64_t{1}, kKeys})
      for (const double strength : {0.1, 40.0, 2000.0})
        for (const std::int64_t steps : {1, 15, 16, 17, 64, 65, 150}) {
          if (rule.log_write && channels > 1) continue;  // refused by the options
          CAPTURE(rule.delta);
          CAPTURE(static_cast<int>(rule.attention_norm));
          CAPTURE(rule.log_write);
          CAPTURE(channels);
          CAPTURE(strength);
          CAPTURE(steps);
          FastWeightInput in = random_input(steps, channels, strength);
          if (rule.log_write) in.write = 3 * random_doubles({kInputBatch, steps, kInputHeads});
          const FastWeightState before = random_state(rule);
          const FastWeightResult out = fast_weights(rule, in, before, lengths({steps, steps / 2, 0}));
          FastWeightState stepped = clone(before);
          double error = 0, scale = 0;
          for (std::int64_t t = 0; t < steps; ++t) {
            const Tensor read = fast_weight_step(rule, at_step(in, t), stepped);
            for (std::int64_t b = 0; b < 2; ++b) {
              if (t >= (b == 0 ? steps : steps / 2)) continue;
              error = std::max(error, (out.output_BTHV[b][t] - read[b]).abs().max().item<double>());
              scale = std::max(scale, read[b].abs().max().item<double>());
            }
          }
          CHECK(error < 1e-10 * scale);
          for (std::size_t i = 0; i < tensors_of(before).size(); ++i) {
            const Tensor end = tensors_of(out.state)[i];
            CHECK(relative_error(end[0], tensors_of(stepped)[i][0]) < 1e-10);
            CHECK(torch::equal(end[2], tensors_of(before)[i][2]));
          }
        }
}

TEST_CASE("gradients of fast weights equal finite differences, to inputs and state, over several chunks") {
  torch::manual_seed(5);
  for (const FastWeightRule& rule : kRules)
    for (const std::int64_t channels : {std::int64_t{0}, std::int64_t{1}, kKeys}) {
      if (rule.log_write && channels > 1) continue;
      CAPTURE(rule.delta);
      CAPTURE(static_cast<int>(rule.attention_norm));
      CAPTURE(rule.log_write);
      CAPTURE(channels);
      constexpr std::int64_t kSteps = 70;
      FastWeightInput in = random_input(kSteps, channels, 0.5);
      if (rule.log_write) in.write = 3 * random_doubles({kInputBatch, kSteps, kInputHeads});
      FastWeightState state = random_state(rule);
      const Tensor lengths_B = lengths({kSteps, 20, 1});
      const Tensor weight = random_doubles({kInputBatch, kSteps, kInputHeads, kValues}) *
                            (torch::arange(kSteps) < lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
      std::vector<Tensor> state_weight;
      for (const Tensor& tensor : tensors_of(state)) state_weight.push_back(random_doubles(tensor.sizes().vec()));
      const auto loss = [&] {
        const FastWeightResult out = fast_weights(rule, in, state, lengths_B);
        Tensor sum = (out.output_BTHV * weight).sum();
        for (std::size_t i = 0; i < state_weight.size(); ++i)
          sum = sum + (tensors_of(out.state)[i] * state_weight[i]).sum();
        return sum;
      };
      std::vector<Tensor> variables{in.query, in.key, in.value, in.write};
      if (in.log_decay.defined()) variables.push_back(in.log_decay);
      for (const Tensor& tensor : tensors_of(state)) variables.push_back(tensor);
      for (Tensor& variable : variables) variable.requires_grad_();
      loss().backward();
      const torch::NoGradGuard no_grad;
      for (std::size_t i = 0; i < variables.size(); ++i) {
        CAPTURE(i);
        Tensor& variable = variables[i];
        constexpr double kStep = 1e-4;
        Tensor direction = torch::randn_like(variable);
        direction /= direction.norm();
        const Tensor origin = variable.clone();
        const auto at = [&](double distance) {
          variable.copy_(origin + direction * distance);
          return loss().item<double>();
        };
        const double slope = (8 * (at(kStep) - at(-kStep)) - (at(2 * kStep) - at(-2 * kStep))) / (12 * kStep);
        variable.copy_(origin);
        const double expected = (variable.grad() * direction).sum().item<double>();
        CHECK(std::abs(slope - expected) < 1e-6 * (variable.grad().norm().item<double>() + 1));
      }
    }
}

TEST_CASE("in float32 neither outputs nor gradients leave the range of numbers, and both keep their precision") {
  torch::manual_seed(2);
  for (const FastWeightRule& rule : kRules)
    for (const std::int64_t channels : {std::int64_t{1}, kKeys})
      for (const double strength : {0.01, 1.0, 500.0}) {
        if (rule.log_write && channels > 1) continue;
        CAPTURE(rule.delta);
        CAPTURE(static_cast<int>(rule.attention_norm));
        CAPTURE(rule.log_write);
        CAPTURE(channels);
        CAPTURE(strength);
        constexpr std::int64_t kSteps = 150;
        FastWeightInput in = random_input(kSteps, channels, strength);
        if (rule.log_write)
          in.write = 60 * random_doubles({kInputBatch, kSteps, kInputHeads});  // e^120 is beyond float32
        const FastWeightState state = random_state(rule);
        const auto results = [&](torch::ScalarType dtype) {
          FastWeightInput own = in_type(in, dtype);
          std::vector<Tensor> leaves{own.query, own.key, own.value, own.write, own.log_decay};
          for (Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad_();
          own = {leaves[0], leaves[1], leaves[2], leaves[3], leaves[4]};
          const FastWeightResult out = fast_weights(rule, own, clone(state, dtype), lengths({kSteps, 40, 0}));
          const Tensor valid = torch::arange(kSteps) < lengths({kSteps, 40, 0}).unsqueeze(1);
          const Tensor output = out.output_BTHV.masked_fill(valid.logical_not().unsqueeze(2).unsqueeze(3), 0);
          output.square().sum().backward();
          std::vector<Tensor> all{output.detach()};
          for (const Tensor& leaf : leaves) all.push_back(leaf.grad());
          for (const Tensor& tensor : tensors_of(out.state)) all.push_back(tensor.detach());
          return all;
        };
        const std::vector<Tensor> exact = results(torch::kFloat64), rounded = results(torch::kFloat32);
        for (std::size_t i = 0; i < exact.size(); ++i) {
          CAPTURE(i);
          CHECK(rounded[i].isfinite().all().item<bool>());
          CHECK(relative_error(rounded[i].to(torch::kFloat64), exact[i]) < 1e-3);
        }
      }
}

TEST_CASE("exponential write strengths give what plain sums of exponentials give") {
  torch::manual_seed(3);
  const FastWeightRule rule{false, AttentionNorm::kAtLeastOne, true};
  constexpr std::int64_t kSteps = 70;
  FastWeightInput in = random_input(kSteps, 1, 0.3);
  in.key = random_doubles({kInputBatch, kSteps, kInputHeads, kKeys});
  in.write = 20 * random_doubles({kInputBatch, kSteps, kInputHeads}) - 10;  // from e^-80 to e^50, within float64
  FastWeightState fresh{torch::zeros({kInputBatch, kInputHeads, kKeys, kValues}, torch::kFloat64),
                        torch::zeros({kInputBatch, kInputHeads, kKeys}, torch::kFloat64),
                        torch::zeros({kInputBatch, kInputHeads}, torch::kFloat64)};
  const FastWeightResult out = fast_weights(rule, in, fresh, lengths({kSteps, kSteps, kSteps}));
  bool floored = false, divided = false;
  for (std::int64_t b = 0; b < kInputBatch; ++b)
    for (std::int64_t h = 0; h < kInputHeads; ++h) {
      Tensor s = torch::zeros({kKeys, kValues}, torch::kFloat64), z = torch::zeros({kKeys}, torch::kFloat64);
      for (std::int64_t t = 0; t < kSteps; ++t) {
        const double forget = std::exp(in.log_decay[b][t][h][0].item<double>());
        const double write = std::exp(in.write[b][t][h].item<double>());
        s = forget * s + write * torch::outer(in.key[b][t][h], in.value[b][t][h]);
        z = forget * z + write * in.key[b][t][h];
        const Tensor q = in.query[b][t][h] / std::sqrt(5.0);
        const double seen = std::abs(z.dot(q).item<double>());
        (seen < 1 ? floored : divided) = true;
        CHECK(relative_error(out.output_BTHV[b][t][h], q.matmul(s) / std::max(seen, 1.0)) < 1e-9);
      }
      const Tensor scale = out.state.log_scale_BH[b][h].exp();
      CHECK(relative_error(out.state.weights_BHKV[b][h] * scale, s) < 1e-9);
      CHECK(relative_error(out.state.key_sum_BHK[b][h] * scale, z) < 1e-9);
    }
  CHECK(floored);
  CHECK(divided);
}

// By the sum rule with a decay, whose values have one more channel, of ones.
TEST_CASE("in their scale write strengths without a bound are those of a sum, with the same answers and gradients") {
  torch::manual_seed(6);
  const FastWeightRule unbounded{false, AttentionNorm::kAtLeastOne, true};
  for (const std::int64_t channels : {std::int64_t{0}, std::int64_t{1}})
    for (const double strength : {0.01, 1.0, 500.0})
      for (const std::int64_t steps : {1, 64, 150})
        for (const auto dtype : {torch::kFloat64, torch::kFloat32}) {
          CAPTURE(channels);
          CAPTURE(strength);
          CAPTURE(steps);
          CAPTURE(static_cast<int>(dtype));
          FastWeightInput in = random_input(steps, channels, strength);
          in.write = 60 * random_doubles({kInputBatch, steps, kInputHeads});
          const Tensor lengths_B = lengths({steps, steps / 2, 0});
          const Tensor valid = (torch::arange(steps) < lengths_B.unsqueeze(1)).unsqueeze(2).unsqueeze(3);
          const Tensor weight = random_doubles({kInputBatch, steps, kInputHeads, kValues}) * valid;
          const auto results = [&](torch::ScalarType of, const auto& read) {
            FastWeightInput own = in_type(in, of);
            std::vector<Tensor> leaves{own.query, own.key, own.value, own.write};
            if (own.log_decay.defined()) leaves.push_back(own.log_decay);
            for (Tensor& leaf : leaves) leaf = leaf.detach().clone().requires_grad_();
            own = {leaves[0], leaves[1], leaves[2], leaves[3], own.log_decay.defined() ? leaves[4] : own.log_decay};
            const Tensor output = read(own).masked_fill(valid.logical_not(), 0);
            (output * weight.to(of)).sum().backward();
            std::vector<Tensor> all{output.detach().to(torch::kFloat64)};
            for (const Tensor& leaf : leaves) all.push_back(leaf.grad().to(torch::kFloat64));
            return all;
          };
          const auto zeros = [&](std::vector<std::int64_t> shape, torch::ScalarType of) {
            shape.insert(shape.begin(), {kInputBatch, kInputHeads});
            return torch::zeros(shape, of);
          };
          const std::vector<Tensor> expected = results(torch::kFloat64, [&](const FastWeightInput& own) {
            const auto of = torch::kFloat64;
            return fast_weights(unbounded, own, {zeros({kKeys, kValues}, of), zeros({kKeys}, of), zeros({}, of)},
                                lengths_B)
                .output_BTHV;
          });
          const std::vector<Tensor> scaled = results(dtype, [&](const FastWeightInput& own) {
            ScaledWrites writes = scaled_writes(own);
            CHECK(writes.input.write.le(1 + 1e-9).all().item<bool>());
            CHECK(writes.input.log_decay.le(1e-9).all().item<bool>());
            CHECK(writes.one_BTH1.gt(0).all().item<bool>());
            writes.input.value = torch::constant_pad_nd(own.value, {0, 1}, 1);
            const Tensor read =
                fast_weights({}, writes.input, {zeros({kKeys, kValues + 1}, dtype), {}, {}}, lengths_B).output_BTHV;
            return read.narrow(3, 0, kValues) / torch::maximum(read.narrow(3, kValues, 1).abs(), writes.one_BTH1);
          });
          for (std::size_t i = 0; i < expected.size(); ++i) {
            CAPTURE(i);
            // Where a gradient is nothing both have the roundings of what cancels in it, numbers of a size of 1.
            const double error = (scaled[i] - expected[i]).abs().max().item<double>();
            CHECK(error < (dtype == torch::kFloat64 ? 1e-10 : 1e-4) * (1 + expected[i].abs().max().item<double>()));
          }
        }
}

TEST_CASE("of bfloat16 inputs the memory is computed and kept in float32") {
  torch::manual_seed(4);
  const auto b = torch::kBFloat16;
  for (const FastWeightRule& rule : kRules) {
    FastWeightInput in = in_type(random_input(70, 1, 0.05), b);
    const FastWeightState state = clone(random_state(rule), torch::kFloat32);
    const FastWeightResult out = fast_weights(rule, in, state, lengths({70, 9, 0}));
    const FastWeightResult exact = fast_weights(rule, in_type(in, torch::kFloat64), clone(state), lengths({70, 9, 0}));
    CHECK((out.output_BTHV.scalar_type() == b));
    CHECK((out.state.weights_BHKV.scalar_type() == torch::kFloat32));
    CHECK(relative_error(out.state.weights_BHKV.to(torch::kFloat64), exact.state.weights_BHKV) < 1e-4);
    // One rounding to 8 bits.
    CHECK(relative_error(out.output_BTHV[0].to(torch::kFloat64), exact.output_BTHV[0]) < 0x1p-8);
  }
}
