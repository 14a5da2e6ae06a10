#include "agents/learn/sac/sac_learner.h"

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <sstream>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "agents/learn/optimizer/parameter_lists.h"
#include "agents/learn/sac/cpu_loss.h"
#include "agents/learn/sac/fused_loss.h"
#include "agents/learn/sac/losses.h"
#include "base/error.h"
#include "nn/fused/late_gradients.h"

namespace engram {

namespace {

// By LibTorch's operations.
SacLoss plain_sac_loss(const AgentNetwork::HeadOutputs& heads, const EpisodeBatch& batch, const torch::Tensor& alpha,
                       double gamma, std::int64_t num_actions) {
  const std::int64_t steps = batch.action_BT.size(1);
  // The kernels' heads have columns to spare.
  const auto of_actions = [&](const torch::Tensor& x_BT1A) {
    return x_BT1A.size(-1) == num_actions ? x_BT1A : x_BT1A.narrow(-1, 0, num_actions);
  };
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
  const auto critic1 = sac::critic_loss(q1_BTA, batch.action_BT, loss.target_BT, mask_BT);
  const auto critic2 = sac::critic_loss(q2_BTA, batch.action_BT, loss.target_BT, mask_BT);
  const auto actor = sac::actor_loss(probabilities_BTA, q1_BTA, q2_BTA, alpha, mask_BT);
  const auto critic = 0.5 * (critic1 + critic2);
  loss.total = critic + actor;

  const torch::NoGradGuard no_grad;
  loss.critic = critic.detach();
  loss.critic1 = critic1.detach();
  loss.critic2 = critic2.detach();
  loss.actor = actor.detach();
  loss.entropy = sac::mean_entropy(probabilities_BTA, mask_BT);
  loss.mean_q = sac::masked_mean(q1_BTA.gather(-1, batch.action_BT.unsqueeze(-1)).squeeze(-1), mask_BT);
  return loss;
}

}  // namespace

SacLoss sac_loss(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma) {
  const std::int64_t rows = batch.previous_action_BT1.size(1);
  const auto lengths_B = batch.steps_B + 1;
  // The padding is wiped where it comes in: after the first product a NaN would reach the gradient as 0 * NaN. An
  // image's bytes are finite.
  const auto without_padding = [&](const torch::Tensor& x_BT1) {
    std::vector<std::int64_t> shape(x_BT1.dim(), 1);
    shape[0] = lengths_B.size(0);
    shape[1] = rows;
    const auto padding_BT1 = torch::arange(rows, lengths_B.options()) >= lengths_B.unsqueeze(1);
    return x_BT1.masked_fill(padding_BT1.reshape(shape), 0);
  };
  const torch::Tensor& observation = batch.observation;
  const auto encoded_BTD = network.encode(
      observation.is_floating_point() ? without_padding(observation) : observation, batch.previous_action_BT1,
      network.sees_previous_reward() ? without_padding(batch.previous_reward_BT1) : batch.previous_reward_BT1);
  const auto heads = network.heads(network.features(encoded_BTD, lengths_B));
  const std::int64_t actions = network.num_actions();
  if (network.uses_kernels() && cpu_sac_loss_supports(heads)) return cpu_sac_loss(heads, batch, alpha, gamma);
  return network.uses_kernels() && fused_sac_loss_supports(heads.logits.device(), heads.logits.scalar_type(), actions)
             ? fused_sac_loss(heads, batch, alpha, gamma, actions)
             : plain_sac_loss(heads, batch, alpha, gamma, actions);
}

SacLearner::SacLearner(const SacOptions& options, std::shared_ptr<AgentNetwork> network, const AdapterOptions& adapters,
                       std::shared_ptr<Ranks> ranks)
    : options_((options.check(), options)),
      network_(std::move(network)),
      adapters_(adapters.rank > 0 ? std::optional<LowRankAdapters>(std::in_place, adapters, *network_) : std::nullopt),
      log_alpha_(
          torch::full({}, std::log(options.alpha), network_->parameters().front().options().requires_grad(true))),
      optimizer_(adapters_ ? adapters_->parameters() : network_->trainable_parameters(), options.learning_rate,
                 options.weight_decay),
      temperature_optimizer_({log_alpha_}, options.learning_rate),
      watch_(torch::zeros({4}, torch::dtype(torch::kInt64).device(log_alpha_.device()))),
      ranks_(std::move(ranks)),
      device_sum_(ranks_->alone() || log_alpha_.device().is_cpu()
                      ? nullptr
                      : std::make_unique<DeviceSum>(ranks_, log_alpha_.device())),
      step_(log_alpha_.device()) {}

std::vector<std::string> SacLearner::scalar_names() const {
  return {"critic_loss", "actor_loss", "entropy", "alpha", "mean_q", "gradient_norm"};
}

NamedScalars SacLearner::update(const EpisodeBatch& batch) {
  if (!network_->is_training()) throw std::logic_error("an update of a network in evaluation mode");
  const auto learn = [this](const std::vector<torch::Tensor>& inputs) { return learn_from(EpisodeBatch::of(inputs)); };
  std::vector<torch::Tensor> values;
  summed_ = false;
  explaining([&] { values = step_.run(batch.tensors(), learn); });
  const std::vector<std::string> names = scalar_names();
  NamedScalars scalars;
  for (std::size_t i = 0; i < names.size(); ++i) scalars.emplace_back(names[i], values.at(i));
  return scalars;
}

std::vector<torch::Tensor> SacLearner::learn_from(const EpisodeBatch& batch) {
  const torch::Tensor used_alpha = alpha();
  const SacLoss loss = sac_loss(*network_, batch, used_alpha, options_.gamma);
  optimizer_.zero_gradients();
  if (adapters_) adapters_->zero_gradients();
  std::vector<torch::Tensor> gradients = late_gradients(
      log_alpha_.device(), [&] { loss.backward(); },
      [&] { return adapters_ ? adapters_->network_gradients() : optimizer_.gradients(); });
  if (adapters_) {
    adapters_->set_gradients();
    gradients = optimizer_.gradients();
  }
  std::vector<torch::Tensor> scalars = {loss.total.detach(), loss.critic, loss.actor, loss.entropy, loss.mean_q};
  if (!ranks_->alone()) {
    std::vector<torch::Tensor> means = gradients;
    means.insert(means.end(), scalars.begin(), scalars.end());
    average_over_ranks(means, batch.mask_BT.sum());
  }
  const auto& [total, critic, actor, entropy, mean_q] =
      std::tie(scalars[0], scalars[1], scalars[2], scalars[3], scalars[4]);
  const WatchedUpdate watched = watch_update(total, list_norms(gradients), watch_);
  if (options_.clip_gradient_norm > 0)
    torch::_foreach_mul_(gradients, (options_.clip_gradient_norm / watched.norm).clamp_max(1));
  optimizer_.step(watched.bad);
  if (adapters_) adapters_->merge();
  network_->update_targets(options_.target_rate);
  if (options_.temperature == Temperature::kLearnt) update_temperature(entropy, watched.bad);
  return {critic, actor, entropy, used_alpha, mean_q, watched.norm};
}

// Every loss is a mean over the valid steps, and so is its gradient: in place, those over all ranks' steps of means
// over this rank's. One sum of everything that there is.
void SacLearner::average_over_ranks(const std::vector<torch::Tensor>& means, const torch::Tensor& steps) const {
  const torch::NoGradGuard no_grad;
  const auto dtype = log_alpha_.scalar_type();
  std::vector<torch::Tensor> flat;
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& mean : means) {
    flat.push_back(mean.reshape({-1}).to(dtype));
    sizes.push_back(mean.numel());
  }
  flat.push_back(torch::ones({1}, log_alpha_.options()));
  sizes.push_back(1);
  torch::Tensor sums = torch::cat(flat) * steps.to(dtype);
  if (device_sum_)
    device_sum_->add_up(sums);
  else
    ranks_->add_up(sums);
  sums /= sums[-1].clone();
  std::vector<torch::Tensor> averages = sums.split_with_sizes(sizes);
  averages.pop_back();
  for (std::size_t i = 0; i < means.size(); ++i) averages[i] = averages[i].view_as(means[i]);
  torch::_foreach_copy_(means, averages);
}

// What waits for the sums of ranks fails where one of them is lost, and says so.
void SacLearner::explaining(const std::function<void()>& work) const {
  if (device_sum_)
    device_sum_->explaining(work);
  else
    work();
}

// Descends log(alpha) (H - target): alpha falls while the policy's entropy H is above the target.
void SacLearner::update_temperature(const torch::Tensor& entropy, const torch::Tensor& skip) {
  const double target = options_.target_entropy_fraction * std::log(static_cast<double>(network_->num_actions()));
  log_alpha_.mutable_grad() = entropy - target;
  temperature_optimizer_.step(skip);
  const torch::NoGradGuard no_grad;
  log_alpha_.clamp_(std::log(options_.alpha_min), std::log(options_.alpha_max));
}

Faults SacLearner::faults() const {
  torch::Tensor watch;
  explaining([&] { watch = watch_.cpu(); });
  if (device_sum_ && !summed_) device_sum_->check();
  summed_ = true;
  const std::int64_t* const values = watch.const_data_ptr<std::int64_t>();
  if (values[1] == 0) return {};
  std::vector<std::string> names = {"the loss"};
  if (adapters_)
    for (const std::string& name : adapters_->names()) names.push_back("the gradient of " + name);
  else
    for (const auto& item : network_->named_parameters())
      if (item.value().requires_grad()) names.push_back("the gradient of " + item.key());
  return {values[1], values[2], names.at(static_cast<std::size_t>(values[3]))};
}

void SacLearner::visit_state(StateArchive& archive) {
  archive.within("network", [&] { network_->visit_state(archive); });
  if (adapters_) archive.within("adapters", [&] { adapters_->visit_state(archive); });
  archive.tensor("log_alpha", log_alpha_);
  archive.tensor("watch", watch_);
  if (archive.restoring() &&
      (watch_[3].item<std::int64_t>() < 0 ||
       watch_[3].item<std::int64_t>() > static_cast<std::int64_t>(optimizer_.parameters().size())))
    archive.refuse("watch", "there is no such tensor");
  archive.within("adam", [&] { optimizer_.visit_state(archive); });
  archive.within("temperature_adam", [&] { temperature_optimizer_.visit_state(archive); });
}

}  // namespace engram
