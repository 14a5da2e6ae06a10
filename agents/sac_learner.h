// SacLearner: one gradient update of discrete SAC with one backbone shared by actor and critics.
#pragma once

#include <torch/torch.h>

#include <memory>

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
  double alpha = 0.1;                   // fixed temperature, or the first value of a learnt one
  double alpha_min = 1e-4;              // bounds of a learnt temperature
  double alpha_max = 1.0;
  double target_entropy_fraction = 0.5;  // learnt: target entropy as a fraction of log |A|
  double clip_gradient_norm = 0;         // 0: no clipping

  void list_options(OptionList& list);
  void check() const;
};

// Means over the valid steps of one update, as tensors on the device: reading them is what synchronises.
struct LossReport {
  torch::Tensor critic_loss, actor_loss, entropy, alpha, mean_q, gradient_norm;
};

class SacLearner {
 public:
  SacLearner(const SacOptions& options, std::shared_ptr<AgentNetwork> network);

  // The network must be in training mode; it is left there.
  LossReport update(const EpisodeBatch& batch);

 private:
  SacOptions options_;
  std::shared_ptr<AgentNetwork> network_;
  torch::optim::Adam optimizer_;
  torch::Tensor log_alpha_;
};

}  // namespace engram
