// Advantages as the sums that define them, in double precision, and problems for these.
#pragma once

#include <torch/torch.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "agents/play/episode.h"

namespace engram {

struct AdvantageProblem {
  EpisodeBatch batch;  // rewards, terminations, steps
  torch::Tensor value_BT1;
};

// Ragged episodes, the first with all steps and the second with one, every second one terminated; padding, of which the
// row after a termination is some, is NaN.
inline AdvantageProblem random_advantages(std::int64_t batch, std::int64_t time, unsigned seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  AdvantageProblem p;
  const auto none = [](std::int64_t rows, std::int64_t columns) {
    return torch::full({rows, columns}, std::numeric_limits<float>::quiet_NaN());
  };
  p.batch.reward_BT = none(batch, time), p.batch.terminated_BT = none(batch, time), p.value_BT1 = none(batch, time + 1);
  std::vector<std::int64_t> steps;
  for (std::int64_t b = 0; b < batch; ++b) {
    steps.push_back(b == 0 ? time : b == 1 ? 1 : 1 + static_cast<std::int64_t>(random() % time));
    const bool terminated = b % 2 == 0;
    for (std::int64_t t = 0; t <= steps[b]; ++t) {
      if (t < steps[b] || !terminated) p.value_BT1[b][t] = normal(random);
      if (t == steps[b]) break;
      p.batch.reward_BT[b][t] = normal(random);
      p.batch.terminated_BT[b][t] = terminated && t == steps[b] - 1 ? 1.0f : 0.0f;
    }
  }
  p.batch.steps_B = torch::tensor(steps);
  return p;
}

// A_t = sum_k (gamma lambda)^k (r_{t+k} + gamma V_{t+k+1} - V_{t+k}), float64 [B, T]
inline torch::Tensor plain_advantages(const AdvantageProblem& p, double gamma, double lambda) {
  const std::int64_t batch = p.batch.reward_BT.size(0), time = p.batch.reward_BT.size(1);
  const auto reward = p.batch.reward_BT.accessor<float, 2>(), terminated = p.batch.terminated_BT.accessor<float, 2>(),
             value = p.value_BT1.accessor<float, 2>();
  torch::Tensor all = torch::zeros({batch, time}, torch::kFloat64);
  auto advantage = all.accessor<double, 2>();
  for (std::int64_t b = 0; b < batch; ++b) {
    const auto steps = p.batch.steps_B[b].item<std::int64_t>();
    for (std::int64_t t = 0; t < steps; ++t)
      for (std::int64_t later = t; later < steps; ++later) {
        const double next = terminated[b][later] == 1 ? 0 : value[b][later + 1];
        const double error = reward[b][later] + gamma * next - value[b][later];
        advantage[b][t] += std::pow(gamma * lambda, static_cast<double>(later - t)) * error;
      }
  }
  return all;
}

// Relative to the greatest; the padding is to be 0.
inline double largest_advantage_error(const torch::Tensor& actual, const torch::Tensor& expected) {
  return ((actual.cpu().to(torch::kFloat64) - expected).abs().max() / expected.abs().max()).item<double>();
}

}  // namespace engram
