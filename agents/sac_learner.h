// SacLearner: one gradient update of discrete SAC with one backbone shared by actor and critics.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/adam.h"
#include "agents/episode.h"
#include "agents/network.h"
#include "base/options.h"

namespace engram {

enum class Temperature { kFixed, kLearnt };

struct SacOptions {
  double gamma = 0.99;
  double learning_rate = 3e-4;
  double target_rate = 0.005;  // tau
  Temperature temperature = Temperature::kFixed;
  double alpha = 0.1;       // fixed temperature, or the first value of a learnt one
  double alpha_min = 1e-4;  // bounds of a learnt temperature
  double alpha_max = 1.0;
  double target_entropy_fraction = 0.5;  // learnt: target entropy as a fraction of log |A|
  double clip_gradient_norm = 0;         // 0: no clipping

  void list_options(OptionList& list);
  void check() const;
};

// The loss of one batch and its parts: scalars on the device, without gradient except for `total` where there are no
// `outputs`.
struct SacLoss {
  torch::Tensor total;  // 0.5 (L1 + L2) + actor
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

// Means over the valid steps of one update, as tensors on the device: reading them is what synchronises.
struct LossReport {
  torch::Tensor critic_loss;  // 0.5 (L1 + L2)
  torch::Tensor actor_loss;
  torch::Tensor entropy;        // of the policy, nats
  torch::Tensor alpha;          // that the update used
  torch::Tensor mean_q;         // Q1(h_t, a_t)
  torch::Tensor gradient_norm;  // before clipping
};

class SacLearner {
 public:
  // The network stays on its device and in its dtype from now on. Calls options.check().
  SacLearner(const SacOptions& options, std::shared_ptr<AgentNetwork> network);

  ~SacLearner();

  // One Adam step of all trainable parameters, of the temperature where it is learnt, and of the target critics. Where
  // the loss or a gradient is not finite, neither weights nor temperature change, and faults() will tell. The
  // network must be in training mode (std::logic_error otherwise); it is left there. Nothing in here waits for the
  // device.
  //
  // On a GPU, the update is recorded as a graph once several batches in a row had the same shapes, and replayed for
  // further ones: the same kernels on the same numbers. A batch in other memory than the one before is copied. What
  // update returns stays valid until the next one.
  LossReport update(const EpisodeBatch& batch);

  // From now on no update is recorded or replayed; recorded updates are measured against such ones.
  void launch_every_update();

  // Updates whose loss or gradients were not finite, since the beginning of the run. Waits for the device.
  struct Faults {
    std::int64_t count = 0;
    std::int64_t first_update = 0;  // from 1 on
    std::string first_tensor;       // "the loss" or "the gradient of NAME"
  };
  Faults faults() const;

  // Includes the network's state.
  void visit_state(StateArchive& archive);

  torch::Tensor alpha() const { return log_alpha_.detach().exp(); }

 private:
  // The gradients of all trained parameters, which the current stream has waited for.
  std::vector<torch::Tensor> gradients_of(const SacLoss& loss);
  LossReport launch_update(const EpisodeBatch& batch);
  void update_temperature(const torch::Tensor& entropy, const torch::Tensor& skip);

  SacOptions options_;
  std::shared_ptr<AgentNetwork> network_;
  torch::Tensor log_alpha_;
  Adam optimizer_;
  Adam temperature_optimizer_;
  torch::Tensor watch_;  // int64 [4], on the device: updates, faults, the first one's update and tensor
  struct Recording;
  std::unique_ptr<Recording> recording_;  // on a GPU alone
};

}  // namespace engram
