// Discrete soft actor-critic (Christodoulou 2019) with one backbone shared by actor and critics: Haarnoja's soft
// actor-critic for a categorical policy, with two critics and their slowly following targets.
#pragma once

#include <torch/torch.h>

#include <optional>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/learn/optimizer/adam.h"
#include "agents/learn/sac/options.h"

namespace engram {

// What the heads have computed of the same features, [B, T+1, A or more].
struct SacHeads {
  struct QValues {
    torch::Tensor first, second;
  };
  torch::Tensor logits;
  QValues q, target_q;

  static SacHeads of(const HeadGroup::Outputs& outputs);
};

// The loss of one batch and its parts: scalars on the device, without gradient except for `total` where there are no
// `outputs`.
struct SacLoss {
  torch::Tensor total;   // critic + actor
  torch::Tensor critic;  // 0.5 (L1 + L2)
  torch::Tensor critic1, critic2, actor;
  torch::Tensor entropy;    // of the policy, nats
  torch::Tensor mean_q;     // Q1(h_t, a_t)
  torch::Tensor target_BT;  // Bellman targets, 0 in the padding
  // Logits and Q values with the total's gradients, where these came with the loss.
  std::vector<torch::Tensor> outputs, gradients;

  void backward() const { backward_of(total, outputs, gradients); }
};

// Encoder and backbone run once over all rows. The critics learn at rows 0 .. T-1 from the targets of rows 1 .. T; the
// actor's loss takes the critics' values without gradient, so that its own gradient reaches the backbone through pi
// alone. Padding has no influence.
SacLoss sac_loss(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma);

class Sac final : public Algorithm {
 public:
  Sac(const SacOptions& options, const AgentNetwork& network);

  // Means over the valid steps: critic_loss 0.5 (L1 + L2), actor_loss, entropy of the policy in nats, mean_q of
  // Q1(h_t, a_t); and the alpha that the update used.
  Loss loss(AgentNetwork& network, const EpisodeBatch& batch) override;
  std::vector<std::string> scalar_names() const override;
  void after_step(AgentNetwork& network, const NamedScalars& scalars, const torch::Tensor& skipped) override;
  StepFigures judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) override;
  std::vector<JudgedBy> judges_by() const override;
  void recall(const std::vector<Scalar>& scalars, const std::string& source) override;
  Road loss_road(const AgentNetwork& network, torch::Device device) const override;
  void visit_state(StateArchive& archive) override;

 private:
  torch::Tensor alpha() const { return log_alpha_.detach().exp(); }
  double judged_alpha() const;

  const SacOptions options_;
  const double target_entropy_;
  torch::Tensor log_alpha_;
  std::optional<double> recalled_alpha_;
  std::string alpha_source_;
  Adam temperature_optimizer_;
};

}  // namespace engram
