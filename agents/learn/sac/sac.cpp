#include "agents/learn/sac/sac.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>

#include "agents/act/action_rule.h"
#include "agents/learn/losses.h"
#include "agents/learn/sac/cpu_loss.h"
#include "agents/learn/sac/fused_loss.h"
#include "agents/learn/sac/losses.h"

namespace engram {
namespace {

// The scalars that an update measures.
struct SacScalars {
  torch::Tensor critic_loss, actor_loss, entropy, alpha, mean_q;

  template <class Visit>
  void visit(Visit visit) {
    visit("critic_loss", critic_loss);
    visit("actor_loss", actor_loss);
    visit("entropy", entropy);
    visit("alpha", alpha);
    visit("mean_q", mean_q);
  }
};

class SacRule final : public ActionRule {
 public:
  torch::Tensor logits(AgentNetwork& network, const torch::Tensor& features_ND) const override {
    return network.head("actor", features_ND);
  }
  torch::Tensor values(AgentNetwork& network, const torch::Tensor& features_ND) const override {
    return torch::minimum(network.head("critic1", features_ND), network.head("critic2", features_ND));
  }
};

// By LibTorch's operations.
SacLoss plain_sac_loss(const SacHeads& heads, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma,
                       std::int64_t num_actions) {
  const std::int64_t steps = batch.action_BT.size(1);
  const auto of_actions = [&](const torch::Tensor& x_BT1A) { return columns(x_BT1A, num_actions); };
  const auto current = [&](const torch::Tensor& x_BT1A) { return x_BT1A.narrow(1, 0, steps); };
  const auto next = [&](const torch::Tensor& x_BT1A) { return x_BT1A.narrow(1, 1, steps); };
  const auto dtype = alpha.scalar_type();
  const auto mask_BT = batch.mask_BT.to(dtype);
  const auto probabilities_BT1A = of_actions(heads.logits).softmax(-1);

  SacLoss loss;
  {
    const torch::NoGradGuard no_grad;
    loss.target_BT = sac::bellman_targets(batch.reward_BT.to(dtype), batch.terminated_BT.to(dtype),
                                          next(probabilities_BT1A), next(of_actions(heads.target_q.first)),
                                          next(of_actions(heads.target_q.second)), alpha, gamma);
    loss.target_BT = torch::where(batch.mask_BT > 0, loss.target_BT, 0);
  }
  const auto probabilities_BTA = current(probabilities_BT1A);
  const auto q1_BTA = current(of_actions(heads.q.first)), q2_BTA = current(of_actions(heads.q.second));
  const auto critic1 = critic_loss(q1_BTA, batch.action_BT, loss.target_BT, mask_BT);
  const auto critic2 = critic_loss(q2_BTA, batch.action_BT, loss.target_BT, mask_BT);
  const auto actor = sac::actor_loss(probabilities_BTA, q1_BTA, q2_BTA, alpha, mask_BT);
  const auto critic = 0.5 * (critic1 + critic2);
  loss.total = critic + actor;

  const torch::NoGradGuard no_grad;
  loss.critic = critic.detach();
  loss.critic1 = critic1.detach();
  loss.critic2 = critic2.detach();
  loss.actor = actor.detach();
  loss.entropy = sac::mean_entropy(probabilities_BTA, mask_BT);
  loss.mean_q = masked_mean(taken(q1_BTA, batch.action_BT), mask_BT);
  return loss;
}

}  // namespace

SacHeads SacHeads::of(const HeadGroup::Outputs& outputs) {
  const auto& [learning, targets] = outputs;
  return {learning[0], {learning[1], learning[2]}, {targets[0], targets[1]}};
}

std::vector<HeadSpec> SacOptions::heads(std::int64_t num_actions) const {
  return {{"actor", num_actions, kPolicyBound},
          {"critic1", num_actions, kValueBound},
          {"critic2", num_actions, kValueBound},
          {"target_critic1", num_actions, kValueBound, "critic1"},
          {"target_critic2", num_actions, kValueBound, "critic2"}};
}

std::shared_ptr<ActionRule> SacOptions::action_rule(const c10::Device&) const { return std::make_shared<SacRule>(); }

std::unique_ptr<Algorithm> SacOptions::make(const AgentNetwork& network) const {
  return std::make_unique<Sac>(*this, network);
}

SacLoss sac_loss(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma) {
  const SacHeads heads = SacHeads::of(network.heads(features_of(network, batch)));
  const std::int64_t actions = network.num_actions();
  if (network.uses_kernels() && supports_cpu_sac_loss(heads)) return cpu_sac_loss(heads, batch, alpha, gamma);
  return network.uses_kernels() && supports_fused_sac_loss(heads.logits.device(), heads.logits.scalar_type(), actions)
             ? fused_sac_loss(heads, batch, alpha, gamma, actions)
             : plain_sac_loss(heads, batch, alpha, gamma, actions);
}

Sac::Sac(const SacOptions& options, const AgentNetwork& network)
    : options_(options),
      target_entropy_(options.target_entropy_fraction * std::log(static_cast<double>(network.num_actions()))),
      log_alpha_(torch::full({}, std::log(options.alpha), network.parameters().front().options().requires_grad(true))),
      alpha_source_(options.temperature == Temperature::kFixed
                        ? "fixed"
                        : "learner.alpha; metrics.jsonl has none of the weights' time"),
      temperature_optimizer_({log_alpha_}, options.learning_rate) {}

std::vector<std::string> Sac::scalar_names() const { return names_of<SacScalars>(); }

Loss Sac::loss(AgentNetwork& network, const EpisodeBatch& batch) {
  const torch::Tensor used_alpha = alpha();
  const SacLoss loss = sac_loss(network, batch, used_alpha, options_.gamma);
  return {.total = loss.total,
          .scalars = named_scalars(SacScalars{loss.critic, loss.actor, loss.entropy, used_alpha, loss.mean_q}),
          .means = {loss.critic, loss.actor, loss.entropy, loss.mean_q},
          .outputs = loss.outputs,
          .gradients = loss.gradients};
}

// A learnt temperature descends log(alpha) (H - target): alpha falls while the policy's entropy H is above the target.
void Sac::after_step(AgentNetwork& network, const NamedScalars& scalars, const torch::Tensor& skipped) {
  network.update_targets(options_.target_rate);
  if (options_.temperature != Temperature::kLearnt) return;
  log_alpha_.mutable_grad() = named(scalars, "entropy") - target_entropy_;
  temperature_optimizer_.step(skipped);
  const torch::NoGradGuard no_grad;
  log_alpha_.clamp_(std::log(options_.alpha_min), std::log(options_.alpha_max));
}

StepFigures Sac::judge(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& features_BTD) {
  const std::int64_t steps = batch.action_BT.size(1);
  const SacHeads heads = SacHeads::of(network.heads(features_BTD));
  const auto of_actions = [&](const torch::Tensor& x_BT1A) {
    return columns(x_BT1A, network.num_actions()).to(torch::kCPU, torch::kFloat64);
  };
  const auto rows = [&](const torch::Tensor& x_BT1A, std::int64_t first) { return x_BT1A.narrow(1, first, steps); };
  const torch::Tensor probabilities_BT1A = of_actions(heads.logits).softmax(-1);
  const torch::Tensor target_BT =
      sac::bellman_targets(batch.reward_BT.to(torch::kCPU, torch::kFloat64),
                           batch.terminated_BT.to(torch::kCPU, torch::kFloat64), rows(probabilities_BT1A, 1),
                           rows(of_actions(heads.target_q.first), 1), rows(of_actions(heads.target_q.second), 1),
                           torch::scalar_tensor(judged_alpha(), torch::kFloat64), options_.gamma);
  const torch::Tensor action_BT = batch.action_BT.cpu();
  const torch::Tensor q1_BT = taken(rows(of_actions(heads.q.first), 0), action_BT),
                      q2_BT = taken(rows(of_actions(heads.q.second), 0), action_BT);
  const torch::Tensor now_BTA = rows(probabilities_BT1A, 0);
  return {.squared_error_BT = ((q1_BT - target_BT).square() + (q2_BT - target_BT).square()) / 2,
          .entropy_BT = -(now_BTA * sac::clamped_log(now_BTA)).sum(-1),
          .value_BT = torch::minimum(q1_BT, q2_BT)};
}

double Sac::judged_alpha() const {
  if (options_.temperature == Temperature::kFixed) return options_.alpha;
  return recalled_alpha_ ? *recalled_alpha_ : alpha().item<double>();
}

std::vector<JudgedBy> Sac::judges_by() const {
  return {{"alpha", judged_alpha(), alpha_source_}, {"gamma", options_.gamma}};
}

void Sac::recall(const std::vector<Scalar>& scalars, const std::string& source) {
  if (options_.temperature != Temperature::kLearnt) return;
  for (const auto& [name, value] : scalars)
    if (name == "alpha") recalled_alpha_ = value, alpha_source_ = source;
}

Road Sac::loss_road(const AgentNetwork& network, torch::Device device) const {
  return loss_road_of(network, device, supports_fused_sac_loss(device, torch::kFloat32, network.num_actions()));
}

void Sac::visit_state(StateArchive& archive) {
  archive.tensor("log_alpha", log_alpha_);
  archive.within("temperature_adam", [&] { temperature_optimizer_.visit_state(archive); });
}

}  // namespace engram
