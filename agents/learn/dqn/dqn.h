// Recurrent double DQN over whole episodes: one critic Q on the backbone's output h_t. Its target is
//   y_t = r_t + gamma (1 - terminated_t) Q'(h_{t+1}, argmax_a Q(h_{t+1}, a))
// (van Hasselt et al. 2016), with Q' a target critic that follows softly; the loss is the mean of (Q(h_t, a_t) - y_t)^2
// over the valid steps. Actions are epsilon-greedy.
#pragma once

#include <torch/torch.h>

#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/learn/dqn/options.h"

namespace engram {

class Dqn final : public Algorithm {
 public:
  explicit Dqn(const DqnOptions& options) : options_(options) {}

  // Means over the valid steps: critic_loss, and mean_q of Q(h_t, a_t).
  Loss loss(AgentNetwork& network, const EpisodeBatch& batch) override;
  std::vector<std::string> scalar_names() const override;
  void after_step(AgentNetwork& network, const NamedScalars& scalars, const torch::Tensor& skipped) override;
  StepFigures judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) override;
  std::vector<JudgedBy> judges_by() const override { return {{"gamma", options_.gamma}}; }
  Road loss_road(const AgentNetwork& network, torch::Device device) const override;
  void visit_state(StateArchive&) override {}

 private:
  const DqnOptions options_;
};

}  // namespace engram
