// Algorithm: what makes one learner differ from another: its losses, what it does after a step of the optimiser, and
// what it can say of an agent's moments. What all learners need is around it, once (learner.h).
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "agents/act/network.h"
#include "agents/play/episode.h"
#include "base/support.h"
#include "storage/log/tensorboard.h"
#include "storage/tensors/state_archive.h"

namespace engram {

// What an update measured: scalars on the device, without gradient, in the order in which they are shown.
using NamedScalars = std::vector<std::pair<std::string, torch::Tensor>>;

// Throws std::out_of_range where none has that name.
inline const torch::Tensor& named(const NamedScalars& scalars, std::string_view name) {
  for (const auto& [own, value] : scalars)
    if (own == name) return value;
  throw std::out_of_range("an update measures no " + std::string(name));
}

// Of a struct of tensors that shows each with its name: visit(f) calls f("critic_loss", critic_loss) and so on.
template <class Scalars>
NamedScalars named_scalars(Scalars scalars) {
  NamedScalars all;
  scalars.visit([&](const char* name, torch::Tensor& value) { all.emplace_back(name, value); });
  return all;
}

template <class Scalars>
std::vector<std::string> names_of() {
  std::vector<std::string> names;
  for (const auto& [name, value] : named_scalars(Scalars())) names.push_back(name);
  return names;
}

// Adds a loss's gradients to those of the parameters: from `gradients` of `outputs`, where there are some.
inline void backward_of(const torch::Tensor& total, const std::vector<torch::Tensor>& outputs,
                        const std::vector<torch::Tensor>& gradients) {
  if (outputs.empty())
    total.backward();
  else
    torch::autograd::backward(outputs, gradients);
}

// The loss of one batch: scalars on the device, without gradient except for `total` where there are no `outputs`.
struct Loss {
  torch::Tensor total;
  NamedScalars scalars;              // with the names of Algorithm::scalar_names(), in their order
  std::vector<torch::Tensor> means;  // those of the scalars that are means over the batch's valid steps
  // Outputs of heads with the total's gradients, where these came with the loss.
  std::vector<torch::Tensor> outputs = {}, gradients = {};

  void backward() const { backward_of(total, outputs, gradients); }
};

// Of the steps of a batch, float64 [B, T] on the CPU; anything where the batch's mask is 0.
struct StepFigures {
  torch::Tensor
      squared_error_BT;      // of what the learner has for the value of (h_t, a_t) from its target, as it learns it
  torch::Tensor entropy_BT;  // of the distribution that actions are sampled from, nats
  torch::Tensor value_BT;    // Q(h_t, a_t), or V(h_t): ActionRule::values_are_of_actions()
};

// A discount, a temperature.
struct JudgedBy {
  std::string name;
  double value;
  std::string source = "";  // of what a run can learn: where the value is from
};

// Makes sums of one rank, float32 or float64, those over all ranks, in place and without waiting for a GPU; nothing for
// a rank alone.
using SumOverRanks = std::function<void(torch::Tensor& sums)>;

// What a learner on policy makes of the steps of a batch before it learns from them: float32 [B, T] on the device, 0 in
// the padding.
struct AdvantageEstimate {
  torch::Tensor value_BT;      // V(h_t)
  torch::Tensor advantage_BT;  // of a_t
};

// What a learner on policy does in an iteration (experience/iterations.h): it estimates the advantages in all of its
// episodes by the weights that it has then, and learns from them in several passes.
class OnPolicy {
 public:
  virtual ~OnPolicy() = default;

  // Of the optimiser, in an iteration that begins when so much of the run is over, 0 to 1.
  virtual double learning_rate(double progress) const = 0;
  virtual void begin_iteration() = 0;
  // Nothing in it waits for the device, and padding has no influence.
  virtual AdvantageEstimate estimate_advantages(AgentNetwork& network, const EpisodeBatch& batch) = 0;
  // Those of all episodes of this rank have been estimated.
  virtual void all_estimated(const SumOverRanks& sum) = 0;
  // All of the episodes are learnt from once more.
  virtual void begin_pass() = 0;

  // Whether loss() of a part of a minibatch needs to know of all of it; then the next three come before.
  virtual bool sees_minibatches() const { return false; }
  virtual void begin_minibatch() {}
  virtual void see_part(const EpisodeBatch& /*part*/) {}
  // All of this rank's parts were.
  virtual void all_seen(const SumOverRanks& /*sum*/) {}
};

class Algorithm {
 public:
  virtual ~Algorithm() = default;

  // Nothing in it waits for the device, and padding has no influence. Of a learner on policy, whose minibatches may
  // come in parts, all scalars are means over the batch's valid steps, or the same for all parts.
  virtual Loss loss(AgentNetwork& network, const EpisodeBatch& batch) = 0;
  virtual std::vector<std::string> scalar_names() const = 0;
  // float32 scalar on the device, 1 where this step is to change no weight; undefined: it may. `scalars`: the loss's,
  // over all ranks.
  virtual torch::Tensor holds_back(const NamedScalars& /*scalars*/) { return {}; }
  // After the optimiser's step. `scalars`: the loss's, over all ranks. `skipped`: float32 scalar, 1 where the step
  // changed no weight, because a value was not finite or holds_back().
  virtual void after_step(AgentNetwork& network, const NamedScalars& scalars, const torch::Tensor& skipped) = 0;

  // What it says of episodes of which the backbone's outputs are `features_BTD` (with the last row of each). Waits for
  // the device.
  virtual StepFigures judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) = 0;
  // What judge() goes by. Waits for the device.
  virtual std::vector<JudgedBy> judges_by() const = 0;
  // Takes those of them that a run learns from the scalars of one of its updates; `source` says which.
  virtual void recall(const std::vector<Scalar>&, const std::string& /*source*/) {}

  // How the loss of this network is computed.
  virtual Road loss_road(const AgentNetwork& network, torch::Device device) const = 0;

  // Of a learner that learns in iterations; otherwise null.
  virtual OnPolicy* on_policy() { return nullptr; }

  // What it has besides the network.
  virtual void visit_state(StateArchive& archive) = 0;
};

}  // namespace engram
