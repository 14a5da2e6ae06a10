#include "agents/learn/dqn/dqn.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>

#include "agents/act/action_rule.h"
#include "agents/learn/losses.h"

namespace engram {
namespace {

// Which action is the greedy one is of the online critic, what it is worth of the target critic.
torch::Tensor double_q_targets(const torch::Tensor& reward_BT, const torch::Tensor& terminated_BT,
                               const torch::Tensor& next_q_BTA, const torch::Tensor& next_target_q_BTA, double gamma) {
  const torch::NoGradGuard no_grad;
  return reward_BT + gamma * (1 - terminated_BT) * taken(next_target_q_BTA, next_q_BTA.argmax(-1));
}

// 1 at the greedy action, [N, A]; where a value is not finite, neither is its row.
torch::Tensor greedy(const torch::Tensor& q_NA) {
  return torch::zeros_like(q_NA).scatter_(-1, q_NA.argmax(-1, /*keepdim=*/true), 1) + 0 * q_NA.sum(-1, true);
}

torch::Tensor epsilon_greedy(const torch::Tensor& q_NA, const torch::Tensor& epsilon) {
  return epsilon / q_NA.size(-1) + (1 - epsilon) * greedy(q_NA);
}

class EpsilonGreedy final : public ActionRule {
 public:
  EpsilonGreedy(const DqnOptions& options, torch::Device device)
      : options_(options), epsilon_(torch::full({}, options.epsilon_last, device)) {}

  torch::Tensor logits(AgentNetwork& network, const torch::Tensor& features_ND) const override {
    return epsilon_greedy(values(network, features_ND).to(epsilon_.scalar_type()), epsilon_).log();
  }
  torch::Tensor values(AgentNetwork& network, const torch::Tensor& features_ND) const override {
    return network.head("q", features_ND);
  }
  Support draws_from_actor() const override { return Support::no("learner.name dqn has no actor"); }

  // In place: a captured step reads it where it is.
  void explore(std::int64_t environment_steps) override {
    const double gone =
        options_.epsilon_steps == 0
            ? 1
            : std::min(1.0, static_cast<double>(environment_steps) / static_cast<double>(options_.epsilon_steps));
    epsilon_.fill_(options_.epsilon_first + gone * (options_.epsilon_last - options_.epsilon_first));
  }

 private:
  const DqnOptions options_;
  torch::Tensor epsilon_;
};

// The scalars that an update measures.
struct DqnScalars {
  torch::Tensor critic_loss, mean_q;

  template <class Visit>
  void visit(Visit visit) {
    visit("critic_loss", critic_loss);
    visit("mean_q", mean_q);
  }
};

}  // namespace

std::vector<HeadSpec> DqnOptions::heads(std::int64_t num_actions) const {
  return {{"q", num_actions, kValueBound}, {"target_q", num_actions, kValueBound, "q"}};
}

std::shared_ptr<ActionRule> DqnOptions::action_rule(const c10::Device& device) const {
  return std::make_shared<EpsilonGreedy>(*this, device);
}

std::unique_ptr<Algorithm> DqnOptions::make(const AgentNetwork&) const { return std::make_unique<Dqn>(*this); }

std::vector<std::string> Dqn::scalar_names() const { return names_of<DqnScalars>(); }

Loss Dqn::loss(AgentNetwork& network, const EpisodeBatch& batch) {
  const std::int64_t steps = batch.action_BT.size(1), actions = network.num_actions();
  const HeadGroup::Outputs heads = network.heads(features_of(network, batch));
  const torch::Tensor q_BT1A = columns(heads.learning[0], actions), target_q_BT1A = columns(heads.targets[0], actions);
  const auto dtype = q_BT1A.scalar_type();
  const torch::Tensor mask_BT = batch.mask_BT.to(dtype), q_BTA = q_BT1A.narrow(1, 0, steps);
  const torch::Tensor target_BT =
      double_q_targets(batch.reward_BT.to(dtype), batch.terminated_BT.to(dtype), q_BT1A.narrow(1, 1, steps),
                       target_q_BT1A.narrow(1, 1, steps), options_.gamma);
  const torch::Tensor total = critic_loss(q_BTA, batch.action_BT, target_BT, mask_BT);
  const torch::NoGradGuard no_grad;
  const DqnScalars scalars{total.detach(), masked_mean(taken(q_BTA, batch.action_BT), mask_BT)};
  return {.total = total, .scalars = named_scalars(scalars), .means = {scalars.critic_loss, scalars.mean_q}};
}

void Dqn::after_step(AgentNetwork& network, const NamedScalars&, const torch::Tensor&) {
  network.update_targets(options_.target_rate);
}

StepFigures Dqn::judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) {
  const std::int64_t steps = batch.action_BT.size(1), actions = network.num_actions();
  const HeadGroup::Outputs heads = network.heads(features_BTD);
  const auto of_actions = [&](const torch::Tensor& x_BT1A, std::int64_t first) {
    return columns(x_BT1A, actions).narrow(1, first, steps).to(torch::kCPU, torch::kFloat64);
  };
  const torch::Tensor q_BTA = of_actions(heads.learning[0], 0);
  const torch::Tensor target_BT = double_q_targets(
      batch.reward_BT.to(torch::kCPU, torch::kFloat64), batch.terminated_BT.to(torch::kCPU, torch::kFloat64),
      of_actions(heads.learning[0], 1), of_actions(heads.targets[0], 1), options_.gamma);
  const torch::Tensor value_BT = taken(q_BTA, batch.action_BT.cpu());
  const torch::Tensor probabilities_BTA =
      epsilon_greedy(q_BTA, torch::full({}, options_.epsilon_last, torch::kFloat64));
  return {.squared_error_BT = (value_BT - target_BT).square(),
          .entropy_BT = -torch::xlogy(probabilities_BTA, probabilities_BTA).sum(-1),
          .value_BT = value_BT};
}

Road Dqn::loss_road(const AgentNetwork& network, torch::Device) const {
  return {"loss", "LibTorch in float32", network.uses_kernels() ? "it has no kernel of its own" : "run.kernels is off"};
}

}  // namespace engram
