#include "agents/learn/ppo/ppo.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <utility>

#include "agents/act/action_rule.h"
#include "agents/learn/losses.h"
#include "agents/learn/ppo/advantages.h"
#include "agents/learn/ppo/fused_loss.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr double kLeastDeviation = 1e-8;
constexpr double kStopAt = 1.5;  // of target_kl

class PpoRule final : public ActionRule {
 public:
  Tensor logits(AgentNetwork& network, const Tensor& features_ND) const override {
    const Tensor outputs_NA = network.head("actor", features_ND);
    if (!network.continuous()) return outputs_NA;
    return torch::cat({network.action_means(outputs_NA), network.action_log_deviations().expand_as(outputs_NA)}, -1);
  }
  Tensor values(AgentNetwork& network, const Tensor& features_ND) const override {
    return network.head("critic", features_ND);
  }
  bool values_are_of_actions() const override { return false; }
};

// The scalars that an update measures.
struct PpoScalars {
  Tensor actor_loss, critic_loss, entropy, kl, clipped, mean_value, kl_weight;

  template <class Visit>
  void visit(Visit visit) {
    visit("actor_loss", actor_loss);
    visit("critic_loss", critic_loss);
    visit("entropy", entropy);
    visit("kl", kl);
    visit("clipped", clipped);
    visit("mean_value", mean_value);
    visit("kl_weight", kl_weight);
  }
};

// Sums of A^0, A and A^2 over the valid steps, float64 [3].
Tensor moments_of(const EpisodeBatch& batch, const Tensor& advantage_BT) {
  if (advantage_BT.is_cuda()) return moments_on_gpu(batch, advantage_BT);
  const Tensor valid_BT = batch.mask_BT > 0;
  const Tensor advantage = torch::where(valid_BT, advantage_BT, 0).to(torch::kFloat64);
  return torch::stack({valid_BT.sum().to(torch::kFloat64), advantage.sum(), advantage.square().sum()});
}

NormalPolicy normal_policy_of(const AgentNetwork& network, const PpoHeads& heads) {
  return {network.action_means(columns(heads.logits, network.num_actions())), network.action_log_deviations()};
}

// The critic's number of each row, [B, T+1].
Tensor values_of(const PpoHeads& heads) { return heads.value.select(-1, 0); }

}  // namespace

std::vector<HeadSpec> PpoOptions::heads(std::int64_t num_actions) const {
  return {{"actor", num_actions, kPolicyBound}, {"critic", 1, kValueBound}};
}

std::shared_ptr<ActionRule> PpoOptions::action_rule(const c10::Device&) const { return std::make_shared<PpoRule>(); }

std::unique_ptr<Algorithm> PpoOptions::make(const AgentNetwork& network) const {
  return std::make_unique<Ppo>(*this, network);
}

Ppo::Ppo(const PpoOptions& options, const AgentNetwork& network) : options_(options) {
  const auto on_device = network.parameters().front().options().requires_grad(false);
  const auto number = [&](double value) { return torch::full({}, value, on_device.dtype(torch::kFloat32)); };
  kl_weight_ = number(options.kl_weight);
  stopped_ = number(0);
  kl_sum_ = number(0);
  kl_count_ = number(0);
  moments_ = torch::zeros({3}, on_device.dtype(torch::kFloat64));
}

std::vector<std::string> Ppo::scalar_names() const { return names_of<PpoScalars>(); }

void Ppo::see_part(const EpisodeBatch& part) { moments_.add_(moments_of(part, part.advantage_BT)); }

PpoScales Ppo::scales_of(torch::ScalarType dtype) const {
  const torch::NoGradGuard no_grad;
  const Tensor kl_weight = kl_weight_.to(dtype);
  if (options_.advantage_scale == AdvantageScale::kOff)
    return {torch::zeros_like(kl_weight), torch::ones_like(kl_weight), kl_weight};
  const Tensor means = moments_ / moments_[0];
  const Tensor deviation = (means[2] - means[1].square()).clamp_min(0).sqrt() + kLeastDeviation;
  return {means[1].to(dtype), deviation.to(dtype), kl_weight};
}

Loss Ppo::loss(AgentNetwork& network, const EpisodeBatch& batch) {
  const PpoHeads heads = PpoHeads::of(network.heads(features_of(network, batch)));
  const PpoWeights weights{options_.clip, options_.value_clip, options_.value_error_bound, options_.value_weight,
                           options_.entropy_weight};
  const PpoScales scales = scales_of(heads.logits.scalar_type());
  const PpoLoss loss = network.continuous()
                           ? normal_ppo_loss(normal_policy_of(network, heads), heads.value, batch, scales, weights)
                           : ppo_loss(heads, batch, scales, weights, network.num_actions(), network.uses_kernels());
  const PpoScalars scalars{loss.actor,   loss.critic, loss.entropy,      loss.kl,
                           loss.clipped, loss.value,  kl_weight_.clone()};
  return {.total = loss.total,
          .scalars = named_scalars(scalars),
          .means = {loss.actor, loss.critic, loss.entropy, loss.kl, loss.clipped, loss.value},
          .outputs = loss.outputs,
          .gradients = loss.gradients};
}

Tensor Ppo::holds_back(const NamedScalars& scalars) {
  if (options_.target_kl == 0) return {};
  const Tensor passed = named(scalars, "kl") > kStopAt * options_.target_kl;
  return stopped_.copy_(torch::maximum(stopped_, passed.to(torch::kFloat32)));
}

void Ppo::after_step(AgentNetwork&, const NamedScalars& scalars, const Tensor&) {
  if (options_.kl_goal == 0) return;
  kl_sum_.add_(named(scalars, "kl").nan_to_num());
  kl_count_.add_(1);
}

double Ppo::learning_rate(double progress) const {
  return options_.learning_rate * (options_.anneal ? std::clamp(1 - progress, 0.0, 1.0) : 1);
}

// The divergence of an iteration is that of its last pass, as RLlib measures it.
void Ppo::begin_iteration() {
  const torch::NoGradGuard no_grad;
  if (options_.kl_goal > 0) {
    const Tensor kl = kl_sum_ / kl_count_;  // NaN before the first iteration, which is neither
    const Tensor factor = 1 + 0.5 * (kl > 2 * options_.kl_goal).to(torch::kFloat32) -
                          0.5 * (kl < 0.5 * options_.kl_goal).to(torch::kFloat32);
    kl_weight_.mul_(factor);
  }
  stopped_.zero_();
  moments_.zero_();
}

void Ppo::begin_pass() {
  kl_sum_.zero_();
  kl_count_.zero_();
}

AdvantageEstimate Ppo::estimate_advantages(AgentNetwork& network, const EpisodeBatch& batch) {
  const Tensor value_BT1 =
      values_of(PpoHeads::of(network.heads(features_of(network, batch)))).to(torch::kFloat32).contiguous();
  const Tensor advantage_BT = advantages_of(batch, value_BT1, options_.gamma, options_.gae_lambda);
  if (options_.advantage_scale == AdvantageScale::kIteration) moments_.add_(moments_of(batch, advantage_BT));
  const Tensor value_BT = value_BT1.narrow(1, 0, batch.mask_BT.size(1));
  return {torch::where(batch.mask_BT > 0, value_BT, 0), advantage_BT};
}

void Ppo::all_estimated(const SumOverRanks& sum) {
  if (options_.advantage_scale == AdvantageScale::kIteration) sum(moments_);
}

StepFigures Ppo::judge(AgentNetwork& network, const EpisodeBatch& batch, const Tensor& features_BTD) {
  const PpoHeads heads = PpoHeads::of(network.heads(features_BTD));
  const std::int64_t steps = batch.action_BT.size(1);
  const Tensor value_BT1 = values_of(heads).to(torch::kFloat32).contiguous();
  const auto on_host = [](const Tensor& x) { return x.to(torch::kCPU, torch::kFloat64); };
  const Tensor advantage_BT = on_host(advantages_of(batch, value_BT1, options_.gamma, options_.gae_lambda));
  const Tensor entropy_BT = [&] {
    if (network.continuous())
      return entropy_of(on_host(network.action_log_deviations())).expand({advantage_BT.size(0), steps});
    const Tensor log_BTA = on_host(columns(heads.logits, network.num_actions())).narrow(1, 0, steps).log_softmax(-1);
    return -(log_BTA.exp() * log_BTA).sum(-1);
  }();
  return {.squared_error_BT = advantage_BT.square(),
          .entropy_BT = entropy_BT,
          .value_BT = on_host(value_BT1).narrow(1, 0, steps)};
}

std::vector<JudgedBy> Ppo::judges_by() const {
  return {{"gamma", options_.gamma}, {"gae_lambda", options_.gae_lambda}};
}

Road Ppo::loss_road(const AgentNetwork& network, torch::Device device) const {
  if (network.continuous()) return {"loss", "LibTorch in float32", "the action is continuous"};
  return loss_road_of(network, device, supports_fused_ppo_loss(device, torch::kFloat32, network.num_actions()));
}

void Ppo::visit_state(StateArchive& archive) {
  archive.tensor("kl_weight", kl_weight_);
  archive.tensor("stopped", stopped_);
  archive.tensor("kl_sum", kl_sum_);
  archive.tensor("kl_count", kl_count_);
  archive.tensor("advantage_moments", moments_);
}

}  // namespace engram
