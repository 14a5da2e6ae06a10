// ppo_update FILE: one whole update by PPO of a linear policy and a linear value on episodes of random numbers, written
// to a safetensors file with all that it begins from. ppo_update.py computes it again.
#include <torch/torch.h>

#include <cstdint>
#include <exception>
#include <iostream>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/learn/optimizer/adam.h"
#include "agents/learn/ppo/losses.h"
#include "storage/tensors/safetensors.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kEpisodes = 7, kSteps = 23, kActions = 5, kWidth = 6;
constexpr int kEpochs = 4;
constexpr double kGamma = 0.97, kLambda = 0.9, kLearningRate = 0.02, kKlWeight = 0.3;
constexpr PpoWeights kWeights{
    .clip = 0.2, .value_clip = 0.25, .value_error_bound = 4, .value_weight = 0.5, .entropy_weight = 0.05};

struct LinearAgent {
  Tensor policy_weight, policy_bias, value_weight, value_bias;

  static LinearAgent random() {
    return {torch::randn({kActions, kWidth}), torch::randn({kActions}), torch::randn({1, kWidth}), torch::randn({1})};
  }
  LinearAgent in(torch::ScalarType dtype) const {
    const auto parameter = [&](const Tensor& x) { return x.to(dtype, /*non_blocking=*/false, true).requires_grad_(); };
    return {parameter(policy_weight), parameter(policy_bias), parameter(value_weight), parameter(value_bias)};
  }
  PpoHeads heads(const Tensor& features) const {
    return {torch::linear(features, policy_weight, policy_bias), torch::linear(features, value_weight, value_bias)};
  }
  TensorMap named(const std::string& when) const {
    return {{when + ".policy_weight", policy_weight},
            {when + ".policy_bias", policy_bias},
            {when + ".value_weight", value_weight},
            {when + ".value_bias", value_bias}};
  }
};

struct Played {
  EpisodeBatch batch;
  Tensor value_BT1;  // as judged when they were played, last rows included
};

// Ragged, every second episode terminated. What the policy that acted thought is near to what `agent` thinks.
Played random_episodes(const LinearAgent& agent, const Tensor& features) {
  EpisodeBatch batch;
  batch.steps_B = torch::randint(1, kSteps + 1, {kEpisodes}, torch::kInt64);
  batch.steps_B[0] = kSteps;
  batch.steps_B[1] = 1;
  const Tensor step_BT = torch::arange(kSteps), steps_B1 = batch.steps_B.unsqueeze(1);
  batch.mask_BT = (step_BT < steps_B1).to(torch::kFloat32);
  batch.action_BT = torch::randint(0, kActions, {kEpisodes, kSteps}, torch::kInt64);
  batch.reward_BT = torch::randn({kEpisodes, kSteps});
  const Tensor every_second = (torch::arange(kEpisodes) % 2 == 0).unsqueeze(1);
  batch.terminated_BT = ((step_BT == steps_B1 - 1) & every_second).to(torch::kFloat32);
  const PpoHeads now = agent.heads(features);
  const Tensor log_prob_BT = now.logits.narrow(1, 0, kSteps).log_softmax(-1).gather(-1, batch.action_BT.unsqueeze(-1));
  batch.log_prob_BT = log_prob_BT.squeeze(-1) + 0.2 * torch::randn({kEpisodes, kSteps});
  const Tensor value_BT1 = now.value.squeeze(-1) + 0.2 * torch::randn({kEpisodes, kSteps + 1});
  batch.value_BT = value_BT1.narrow(1, 0, kSteps).contiguous();
  batch.advantage_BT = advantages_of(batch, value_BT1, kGamma, kLambda);
  return {batch, value_BT1};
}

// Mean and deviation over the valid steps.
PpoScales scales_of(const EpisodeBatch& batch, torch::ScalarType dtype) {
  const Tensor valid = batch.advantage_BT.masked_select(batch.mask_BT > 0).to(torch::kFloat64);
  return {valid.mean().to(dtype), valid.std(/*unbiased=*/false).to(dtype), torch::scalar_tensor(kKlWeight, dtype)};
}

// In double precision by LibTorch's operations, in float32 by the loop over the rows.
void update(const LinearAgent& begin, const Tensor& features, const EpisodeBatch& batch, torch::ScalarType dtype,
            const std::string& name, TensorMap& file) {
  const LinearAgent agent = begin.in(dtype);
  const PpoScales scales = scales_of(batch, dtype);
  Adam adam({agent.policy_weight, agent.policy_bias, agent.value_weight, agent.value_bias}, kLearningRate);
  std::vector<Tensor> losses;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    adam.zero_gradients();
    const PpoLoss loss = ppo_loss(agent.heads(features.to(dtype)), batch, scales, kWeights, kActions, true);
    loss.backward();
    losses.push_back(
        torch::stack({loss.total.detach(), loss.actor, loss.critic, loss.entropy, loss.kl, loss.clipped, loss.value}));
    file[name + ".gradient" + std::to_string(epoch)] = agent.policy_weight.grad().clone();
    file[name + ".value_gradient" + std::to_string(epoch)] = agent.value_weight.grad().clone();
    adam.step();
  }
  file[name + ".losses"] = torch::stack(losses);
  for (const auto& [key, tensor] : agent.named(name)) file[key] = tensor.detach();
}

TensorMap whole_update() {
  torch::manual_seed(3);
  const LinearAgent begin = LinearAgent::random();
  const Tensor features = torch::randn({kEpisodes, kSteps + 1, kWidth});
  const auto [batch, value_BT1] = random_episodes(begin, features);
  TensorMap file = begin.named("begin");
  file["features"] = features;
  file["action"] = batch.action_BT;
  file["reward"] = batch.reward_BT;
  file["terminated"] = batch.terminated_BT;
  file["steps"] = batch.steps_B;
  file["log_prob"] = batch.log_prob_BT;
  file["value"] = value_BT1;
  file["advantage"] = batch.advantage_BT;
  update(begin, features, batch, torch::kFloat64, "double", file);
  update(begin, features, batch, torch::kFloat32, "single", file);
  return file;
}

std::map<std::string, std::string> settings() {
  return {{"gamma", std::to_string(kGamma)},
          {"lambda", std::to_string(kLambda)},
          {"learning_rate", std::to_string(kLearningRate)},
          {"epochs", std::to_string(kEpochs)},
          {"kl_weight", std::to_string(kKlWeight)},
          {"clip", std::to_string(kWeights.clip)},
          {"value_clip", std::to_string(kWeights.value_clip)},
          {"value_error_bound", std::to_string(kWeights.value_error_bound)},
          {"value_weight", std::to_string(kWeights.value_weight)},
          {"entropy_weight", std::to_string(kWeights.entropy_weight)}};
}

}  // namespace

int main(int count, char** words) {
  try {
    if (count != 2) throw std::runtime_error("usage: ppo_update FILE");
    save_safetensors(words[1], whole_update(), settings());
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
