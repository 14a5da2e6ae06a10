// PPO's loss of a continuous action against plain loops in double precision.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numbers>
#include <random>
#include <vector>

#include "agents/learn/ppo/losses.h"

using namespace engram;

namespace {

struct Options {
  double clip, value_weight, entropy_weight, mean, deviation, kl_weight;
};

// B ragged episodes with rows of T + 1, A numbers; padding is NaN.
struct Problem {
  std::int64_t batch, steps, numbers;
  Options options;
  std::vector<std::int64_t> length;
  std::vector<double> mean, action, log_deviation, value, log_prob, old_value, advantage;

  bool valid(std::int64_t b, std::int64_t t) const { return t < length[static_cast<std::size_t>(b)]; }
};

double log_density(double x, double mean, double log_deviation) {
  const double deviation = std::exp(log_deviation);
  return std::log(std::exp(-(x - mean) * (x - mean) / (2 * deviation * deviation)) /
                  (deviation * std::sqrt(2 * std::numbers::pi)));
}

Problem random_problem(std::int64_t batch, std::int64_t steps, std::int64_t numbers, const Options& options,
                       unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;  // float32 numbers, so that both types hold them
  Problem p{batch, steps, numbers, options, {}, {}, {}, {}, {}, {}, {}, {}};
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  for (std::int64_t a = 0; a < numbers; ++a) p.log_deviation.push_back(0.3f * normal(random));
  for (std::int64_t b = 0; b < batch; ++b) p.length.push_back(b == 0 ? steps : 1 + (b * 5) % steps);
  for (std::int64_t b = 0; b < batch; ++b)
    for (std::int64_t t = 0; t <= steps; ++t) {
      const bool valid = p.valid(b, t);
      double log_prob = 0;
      for (std::int64_t a = 0; a < numbers; ++a) {
        const double mean = normal(random), action = normal(random);
        p.mean.push_back(valid ? mean : kNone);
        if (t < steps) p.action.push_back(valid ? action : kNone);
        log_prob += log_density(action, mean, p.log_deviation[static_cast<std::size_t>(a)]);
      }
      const float value = normal(random), old_value = normal(random), advantage = normal(random);
      p.value.push_back(valid ? value : kNone);
      if (t == steps) continue;
      // Ratios on both sides of the clip's bounds.
      p.log_prob.push_back(valid ? static_cast<float>(log_prob + 0.4 * normal(random)) : kNone);
      p.old_value.push_back(valid ? old_value : kNone);
      p.advantage.push_back(valid ? advantage : kNone);
    }
  return p;
}

struct Solution {
  double total = 0, actor = 0, critic = 0, entropy = 0, kl = 0, clipped = 0;
  std::vector<double> mean, log_deviation, value;  // gradients
};

Solution solve(const Problem& p) {
  Solution s;
  s.mean.resize(p.mean.size());
  s.log_deviation.resize(static_cast<std::size_t>(p.numbers));
  s.value.resize(p.value.size());
  double n = 0;
  for (const std::int64_t length : p.length) n += static_cast<double>(length);
  double entropy = 0;
  for (const double log_deviation : p.log_deviation)
    entropy += log_deviation + 0.5 * std::log(2 * std::numbers::pi * std::numbers::e);
  for (std::int64_t b = 0; b < p.batch; ++b)
    for (std::int64_t t = 0; t < p.steps; ++t) {
      if (!p.valid(b, t)) continue;
      const auto row = static_cast<std::size_t>(b * (p.steps + 1) + t),
                 step = static_cast<std::size_t>(b * p.steps + t);
      const auto numbers = static_cast<std::size_t>(p.numbers);
      double log_prob = 0;
      for (std::size_t a = 0; a < numbers; ++a)
        log_prob += log_density(p.action[step * numbers + a], p.mean[row * numbers + a], p.log_deviation[a]);
      const double ratio = std::exp(log_prob - p.log_prob[step]);
      const double advantage = (p.advantage[step] - p.options.mean) / p.options.deviation;
      const double bounded = std::min(std::max(ratio, 1 - p.options.clip), 1 + p.options.clip);
      const double error = p.value[row] - (p.advantage[step] + p.old_value[step]);
      s.actor -= std::min(ratio * advantage, bounded * advantage) / n;
      s.critic += error * error / n;
      s.kl += (ratio - 1 - std::log(ratio)) / n;
      s.clipped += (std::abs(ratio - 1) > p.options.clip) / n;
      s.value[row] = 2 * p.options.value_weight * error / n;
      const double slope = (bounded * advantage < ratio * advantage ? 0 : -ratio * advantage) / n +
                           p.options.kl_weight * (ratio - 1) / n;
      for (std::size_t a = 0; a < numbers; ++a) {
        const double deviation = std::exp(p.log_deviation[a]),
                     off = p.action[step * numbers + a] - p.mean[row * numbers + a];
        s.mean[row * numbers + a] = slope * off / (deviation * deviation);
        s.log_deviation[a] += slope * (off * off / (deviation * deviation) - 1) - p.options.entropy_weight / n;
      }
    }
  s.entropy = entropy;
  s.total =
      s.actor + p.options.value_weight * s.critic - p.options.entropy_weight * s.entropy + p.options.kl_weight * s.kl;
  return s;
}

torch::Tensor tensor_of(const std::vector<double>& numbers, torch::IntArrayRef shape, torch::ScalarType type) {
  return torch::tensor(numbers, torch::kFloat64).view(shape).to(type);
}

double error_of(const torch::Tensor& actual, const std::vector<double>& expected) {
  const torch::Tensor wanted = torch::tensor(expected, torch::kFloat64);
  return (actual.to(torch::kFloat64).reshape(-1) - wanted).abs().max().item<double>() /
         (1 + wanted.abs().max().item<double>());
}

}  // namespace

TEST_CASE("the loss of a continuous action and its gradients equal plain loops, with padding of NaN") {
  unsigned seed = 0;
  for (const Options& options :
       {Options{0.2, 0.5, 0, 0, 1, 0}, {0.3, 1, 0.02, 0.2, 1.5, 0.4}, {1e6, 0.1, 0.5, 0, 2, 1}})
    for (const std::int64_t numbers : {1, 2, 5})
      for (const auto type : {torch::kFloat64, torch::kFloat32}) {
        CAPTURE(++seed);
        const Problem p = random_problem(5, 7, numbers, options, seed);
        const Solution expected = solve(p);
        // Behind the values stand columns to spare, as kernels leave them.
        const torch::Tensor mean = tensor_of(p.mean, {5, 8, numbers}, type).requires_grad_(),
                            log_deviation = tensor_of(p.log_deviation, {numbers}, type).requires_grad_(),
                            value = torch::stack({tensor_of(p.value, {5, 8}, type), torch::full({5, 8}, NAN, type)}, -1)
                                        .requires_grad_();
        EpisodeBatch batch;
        batch.action_BT = tensor_of(p.action, {5, 7, numbers}, torch::kFloat32);
        batch.log_prob_BT = tensor_of(p.log_prob, {5, 7}, torch::kFloat32);
        batch.value_BT = tensor_of(p.old_value, {5, 7}, torch::kFloat32);
        batch.advantage_BT = tensor_of(p.advantage, {5, 7}, torch::kFloat32);
        batch.steps_B = torch::tensor(p.length, torch::kInt64);
        batch.mask_BT = (torch::arange(7) < batch.steps_B.unsqueeze(1)).to(torch::kFloat32);
        const auto scalar = [&](double number) { return torch::full({}, number, type); };
        const PpoLoss loss =
            normal_ppo_loss({mean, log_deviation}, value, batch,
                            {scalar(options.mean), scalar(options.deviation), scalar(options.kl_weight)},
                            {options.clip, 0, 0, options.value_weight, options.entropy_weight});
        CHECK(loss.outputs.empty());
        loss.backward();
        const double bound = type == torch::kFloat64 ? 1e-12 : 1e-6;
        CHECK(error_of(loss.total, {expected.total}) <= bound);
        CHECK(error_of(loss.actor, {expected.actor}) <= bound);
        CHECK(error_of(loss.critic, {expected.critic}) <= bound);
        CHECK(error_of(loss.entropy, {expected.entropy}) <= bound);
        CHECK(error_of(loss.kl, {expected.kl}) <= bound);
        CHECK(error_of(loss.clipped, {expected.clipped}) <= bound);
        CHECK(error_of(mean.grad(), expected.mean) <= bound);
        CHECK(error_of(log_deviation.grad(), expected.log_deviation) <= bound);
        CHECK(error_of(value.grad().select(-1, 0), expected.value) <= bound);
        CHECK(value.grad().select(-1, 1).abs().max().item<double>() == 0);
        if (options.clip < 1) CHECK(expected.clipped > 0);
      }
}
