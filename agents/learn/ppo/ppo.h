// Recurrent proximal policy optimisation (Schulman et al. 2017) over whole episodes, with one backbone shared by the
// policy and a critic of states V. losses.h has the formulas.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/learn/ppo/losses.h"
#include "agents/learn/ppo/options.h"

namespace engram {

class Ppo final : public Algorithm, public OnPolicy {
 public:
  Ppo(const PpoOptions& options, const AgentNetwork& network);

  // Means over the valid steps: actor_loss, critic_loss, entropy of the policy in nats, kl from the policy that acted,
  // clipped: the part of the steps whose ratio is out of the clip's bounds, mean_value; and the kl_weight used.
  Loss loss(AgentNetwork& network, const EpisodeBatch& batch) override;
  std::vector<std::string> scalar_names() const override;
  torch::Tensor holds_back(const NamedScalars& scalars) override;
  void after_step(AgentNetwork& network, const NamedScalars& scalars, const torch::Tensor& skipped) override;
  StepFigures judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) override;
  std::vector<JudgedBy> judges_by() const override;
  Road loss_road(const AgentNetwork& network, torch::Device device) const override;
  OnPolicy* on_policy() override { return this; }
  void visit_state(StateArchive& archive) override;

  double learning_rate(double progress) const override;
  void begin_iteration() override;
  AdvantageEstimate estimate_advantages(AgentNetwork& network, const EpisodeBatch& batch) override;
  void all_estimated(const SumOverRanks& sum) override;
  void begin_pass() override;
  // Where advantages are normalised per minibatch.
  bool sees_minibatches() const override { return options_.advantage_scale == AdvantageScale::kMinibatch; }
  void begin_minibatch() override { moments_.zero_(); }
  void see_part(const EpisodeBatch& part) override;
  void all_seen(const SumOverRanks& sum) override { sum(moments_); }

 private:
  // In `dtype`.
  PpoScales scales_of(torch::ScalarType dtype) const;

  const PpoOptions options_;
  // On the device; float32 [].
  torch::Tensor kl_weight_;
  torch::Tensor stopped_;            // 1 once target_kl was passed in this iteration
  torch::Tensor kl_sum_, kl_count_;  // of this pass's updates
  torch::Tensor moments_;  // float64 [3], of the advantages of this iteration or minibatch: sums of A^0, A, A^2
};

}  // namespace engram
