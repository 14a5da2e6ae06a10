// SacLearner: one gradient update of discrete SAC with one backbone shared by actor and critics.
#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/learner.h"
#include "agents/learn/low_rank_adapters.h"
#include "agents/learn/optimizer/adam.h"
#include "agents/learn/recorded_step.h"
#include "agents/play/episode.h"
#include "agents/run/options.h"
#include "ranks/device_sum.h"
#include "ranks/ranks.h"

namespace engram {

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

  // Adds the total's gradients to those of the parameters.
  void backward() const {
    if (outputs.empty())
      total.backward();
    else
      torch::autograd::backward(outputs, gradients);
  }
};

// Encoder and backbone run once over all rows. The critics learn at rows 0 .. T-1 from the targets of rows 1 .. T; the
// actor's loss takes the critics' values without gradient, so that its own gradient reaches the backbone through pi
// alone. Padding has no influence.
SacLoss sac_loss(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma);

// One gradient update of a batch, and its means over the valid steps: critic_loss 0.5 (L1 + L2), actor_loss, entropy of
// the policy in nats, alpha that the update used, mean_q of Q1(h_t, a_t), gradient_norm before clipping.
class SacLearner final : public Learner {
 public:
  // The network stays on its device and in its dtype from now on. Calls options.check(). With `adapters` of a rank
  // above 0 these are trained (LowRankAdapters), else all of the network. Several `ranks`, each on a GPU of its own or
  // all on CPUs, learn from their batches as one learner from all of these together: their networks are equal and stay
  // so. All make the same updates, of batches of the same shape where they are on GPUs.
  SacLearner(const SacOptions& options, std::shared_ptr<AgentNetwork> network, const AdapterOptions& adapters = {},
             std::shared_ptr<Ranks> ranks = std::make_shared<Ranks>());

  // One Adam step of all that is trained, of the temperature where it is learnt, and of the target critics. Where
  // the loss or a gradient is not finite, neither weights nor temperature change. The network must be in training mode
  // (std::logic_error otherwise); it is left there. On a GPU the update is a RecordedStep.
  NamedScalars update(const EpisodeBatch& batch) override;
  std::vector<std::string> scalar_names() const override;

  // From now on no update is recorded or replayed; recorded updates are measured against such ones.
  void launch_every_update() { step_.launch_every_step(); }

  Faults faults() const override;

  // Includes the network's state.
  void visit_state(StateArchive& archive) override;

  torch::Tensor alpha() const { return log_alpha_.detach().exp(); }

 private:
  // The scalars in the order of their names.
  std::vector<torch::Tensor> learn_from(const EpisodeBatch& batch);
  void average_over_ranks(const std::vector<torch::Tensor>& means, const torch::Tensor& steps) const;
  void explaining(const std::function<void()>& work) const;
  void update_temperature(const torch::Tensor& entropy, const torch::Tensor& skip);

  SacOptions options_;
  std::shared_ptr<AgentNetwork> network_;
  std::optional<LowRankAdapters> adapters_;
  torch::Tensor log_alpha_;
  Adam optimizer_;
  Adam temperature_optimizer_;
  torch::Tensor watch_;  // int64 [4], on the device: updates, faults, the first one's update and tensor
  std::shared_ptr<Ranks> ranks_;
  std::unique_ptr<DeviceSum> device_sum_;  // of several ranks on GPUs
  mutable bool summed_ = true;             // no update since the sums were last found to be whole
  RecordedStep step_;                      // its graphs hold sums
};

}  // namespace engram
