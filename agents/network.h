// AgentNetwork: observation encoder, memory backbone, and the heads actor, critic 1, critic 2 with target critics.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>

#include "base/options.h"
#include "envs/vec_env.h"
#include "memory/registry.h"

namespace engram {

struct NetworkOptions {
  int previous_action_width = 0;  // embedding of a_{t-1}; 0: the agent does not see it
  int previous_reward_width = 0;  // embedding of r_{t-1}; 0: the agent does not see it
  int hidden_width = 256;         // of each head's two hidden layers
  double dropout = 0.1;           // after the encoder

  void list_options(OptionList& list);
};

class AgentNetwork : public torch::nn::Module {
 public:
  AgentNetwork(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task);

  // Any leading shape [...]: observation [..., *observation shape], previous_action int64 [...], previous_reward [...]
  // -> [..., D].
  torch::Tensor encode(const torch::Tensor& observation, const torch::Tensor& previous_action,
                       const torch::Tensor& previous_reward);
  SequenceModel& backbone() { return *backbone_; }

  // [..., D] -> [..., A]
  torch::Tensor actor_logits(const torch::Tensor& hidden);
  struct QValues {
    torch::Tensor first, second;
  };
  QValues critics(const torch::Tensor& hidden);
  QValues target_critics(const torch::Tensor& hidden);
  // target <- (1 - tau) target + tau critic
  void update_targets(double tau);

  // Everything that an optimiser trains: all but the target critics.
  std::vector<torch::Tensor> trainable_parameters() const;
  std::int64_t num_actions() const { return num_actions_; }

 private:
  std::int64_t num_actions_;
  std::shared_ptr<SequenceModel> backbone_;
};

}  // namespace engram
