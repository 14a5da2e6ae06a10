// The problems of plain_ppo.h as tensors, and losses and gradients against its solutions.
#pragma once

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "agents/learn/ppo/losses.h"
#include "tests/agents/learn/ppo/plain_ppo.h"

namespace engram {

struct PpoInputs {
  PpoHeads heads;  // that want gradients
  EpisodeBatch batch;
  PpoScales scales;
  PpoWeights weights;
  std::int64_t actions;

  PpoLoss plain() const { return plain_ppo_loss(heads, batch, scales, weights, actions); }
  PpoLoss own() const { return ppo_loss(heads, batch, scales, weights, actions, /*use_kernels=*/true); }
};

inline torch::Tensor tensor_of(const plain_ppo::Numbers& numbers, const std::vector<std::int64_t>& shape) {
  return torch::tensor(numbers, torch::kFloat64).reshape(shape);
}

// Heads and scales in `dtype`; rows of logits and values with `spare` columns of NaN behind them.
inline PpoInputs inputs_of(const plain_ppo::Problem& p, torch::ScalarType dtype, torch::Device device = torch::kCPU,
                           std::int64_t spare = 0) {
  const std::int64_t B = p.batch, T = p.steps;
  const auto head = [&](const plain_ppo::Numbers& numbers, std::int64_t outputs) {
    return torch::constant_pad_nd(tensor_of(numbers, {B, T + 1, outputs}), {0, spare},
                                  std::numeric_limits<double>::quiet_NaN())
        .to(device, dtype)
        .requires_grad_();
  };
  const auto column = [&](const plain_ppo::Numbers& numbers) {
    return tensor_of(numbers, {B, T}).to(device, torch::kFloat32);
  };
  const auto scalar = [&](double number) { return torch::scalar_tensor(number, dtype).to(device); };
  const plain_ppo::Options& o = p.options;
  PpoInputs x{.heads = {head(p.logits, p.actions), head(p.value, 1)},
              .batch = {},
              .scales = {scalar(o.mean), scalar(o.deviation), scalar(o.kl_weight)},
              .weights = {o.clip, o.value_clip, o.value_error_bound, o.value_weight, o.entropy_weight},
              .actions = p.actions};
  x.batch.action_BT = torch::tensor(p.action).reshape({B, T}).to(device);
  x.batch.steps_B = torch::tensor(p.length).to(device);
  x.batch.mask_BT = (torch::arange(T) < torch::tensor(p.length).unsqueeze(1)).to(torch::kFloat32).to(device);
  x.batch.log_prob_BT = column(p.log_prob);
  x.batch.value_BT = column(p.old_value);
  x.batch.advantage_BT = column(p.advantage);
  return x;
}

inline std::vector<std::pair<const char*, torch::Tensor>> parts_of(const PpoLoss& loss) {
  return {{"total", loss.total}, {"actor", loss.actor},     {"critic", loss.critic}, {"entropy", loss.entropy},
          {"kl", loss.kl},       {"clipped", loss.clipped}, {"value", loss.value}};
}

// Means of numbers of the size 1 may cancel: up to `tolerance` of 1, or of what is greater.
inline void check_losses(const PpoLoss& actual, const plain_ppo::Terms<double>& expected, double tolerance) {
  const std::vector<double> wanted{expected.total, expected.actor,   expected.critic, expected.entropy,
                                   expected.kl,    expected.clipped, expected.value};
  const auto parts = parts_of(actual);
  for (std::size_t i = 0; i < parts.size(); ++i) {
    CAPTURE(parts[i].first);
    CHECK(parts[i].second.dim() == 0);
    const double found = parts[i].second.item<double>();
    CHECK(std::abs(found - wanted[i]) <= tolerance * std::max(1.0, std::abs(wanted[i])));
  }
}

// Relative to the norm; exactly 0 in padding, last rows and spare columns.
inline void check_gradient(const torch::Tensor& actual, const plain_ppo::Numbers& expected, double tolerance) {
  const torch::Tensor found = actual.cpu().to(torch::kFloat64);
  const std::int64_t outputs = static_cast<std::int64_t>(expected.size()) / (found.size(0) * found.size(1));
  const torch::Tensor wanted = torch::constant_pad_nd(tensor_of(expected, {found.size(0), found.size(1), outputs}),
                                                      {0, found.size(2) - outputs});
  CHECK((found - wanted).norm().item<double>() <= tolerance * wanted.norm().item<double>());
  CHECK((found.masked_select(wanted == 0) == 0).all().item<bool>());
}

// Leaves the gradients in the heads.
inline void check_solution(const PpoInputs& x, const PpoLoss& loss, const plain_ppo::Solution& expected,
                           double loss_tolerance, double gradient_tolerance) {
  loss.backward();
  check_losses(loss, expected.means, loss_tolerance);
  {
    INFO("logits");
    check_gradient(x.heads.logits.grad(), expected.d_logits, gradient_tolerance);
  }
  INFO("value");
  check_gradient(x.heads.value.grad(), expected.d_value, gradient_tolerance);
}

}  // namespace engram
