#include "agents/sac_learner.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/parameter_lists.h"
#include "agents/sac_losses.h"
#include "base/error.h"

#ifdef ENGRAM_WITH_CUDA
#include "agents/device_graph.h"
#include "agents/gpu_sac_loss.h"
#include "nn/side_work.h"
#endif

namespace engram {

void SacOptions::list_options(OptionList& list) {
  list.add("gamma", gamma, {0, 1}, "discount of the reward one step later");
  list.add("learning_rate", learning_rate, {0, 1}, "of Adam, for all weights and a learnt temperature");
  list.add("target_rate", target_rate, {0, 1},
           "tau: how far the target critics move towards the critics in one update");
  list.add("temperature", temperature, {{Temperature::kFixed, "fixed"}, {Temperature::kLearnt, "learnt"}},
           "whether alpha, the weight of the policy's entropy, is fixed or learnt");
  list.add("alpha", alpha, {1e-8, 1e3}, "the fixed temperature, or the first value of a learnt one");
  list.add("alpha_min", alpha_min, {1e-8, 1e3}, "least value of a learnt temperature");
  list.add("alpha_max", alpha_max, {1e-8, 1e3}, "greatest value of a learnt temperature");
  list.add("target_entropy_fraction", target_entropy_fraction, {0, 1},
           "entropy that a learnt temperature aims at, as a fraction of log(number of actions)");
  list.add("clip_gradient_norm", clip_gradient_norm, {0, 1e9}, "greatest norm of the whole gradient; 0: no clipping");
}

void SacOptions::check() const {
  check_bounds(*this, "learner");
  const auto text = [](double value) { return (std::ostringstream() << value).str(); };
  if (temperature == Temperature::kLearnt && !(alpha_min <= alpha && alpha <= alpha_max))
    throw UserError("learner.alpha " + text(alpha) + " is not between learner.alpha_min " + text(alpha_min) +
                    " and learner.alpha_max " + text(alpha_max));
}

SacLoss sac_loss(AgentNetwork& network, const EpisodeBatch& batch, const torch::Tensor& alpha, double gamma) {
  const std::int64_t rows = batch.previous_action_BT1.size(1), steps = rows - 1;
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
#ifdef ENGRAM_WITH_CUDA
  if (heads.logits.is_cuda() && heads.logits.scalar_type() == torch::kFloat32)
    return gpu_sac_loss(heads, batch, alpha, gamma, network.num_actions());
#endif
  const auto dtype = alpha.scalar_type();
  const auto reward_BT = batch.reward_BT.to(dtype), mask_BT = batch.mask_BT.to(dtype);
  const auto probabilities_BTA = heads.logits.softmax(-1);

  SacLoss loss;
  {
    const torch::NoGradGuard no_grad;
    loss.target_BT = sac::bellman_targets(
        reward_BT, batch.terminated_BT.to(dtype), probabilities_BTA.narrow(1, 1, steps),
        heads.target_q.first.narrow(1, 1, steps), heads.target_q.second.narrow(1, 1, steps), alpha, gamma);
    loss.target_BT = torch::where(batch.mask_BT > 0, loss.target_BT, 0);
  }
  const AgentNetwork::QValues q{heads.q.first.narrow(1, 0, steps), heads.q.second.narrow(1, 0, steps)};
  const auto current_probabilities_BTA = probabilities_BTA.narrow(1, 0, steps);
  const auto critic1 = sac::critic_loss(q.first, batch.action_BT, loss.target_BT, mask_BT);
  const auto critic2 = sac::critic_loss(q.second, batch.action_BT, loss.target_BT, mask_BT);
  const auto actor = sac::actor_loss(current_probabilities_BTA, q.first, q.second, alpha, mask_BT);
  loss.total = 0.5 * (critic1 + critic2) + actor;

  const torch::NoGradGuard no_grad;
  loss.critic1 = critic1.detach();
  loss.critic2 = critic2.detach();
  loss.actor = actor.detach();
  loss.entropy = sac::mean_entropy(current_probabilities_BTA, mask_BT);
  loss.mean_q = sac::masked_mean(q.first.gather(-1, batch.action_BT.unsqueeze(-1)).squeeze(-1), mask_BT);
  return loss;
}

#ifdef ENGRAM_WITH_CUDA
namespace {

// Handles to the batch's tensors, which can be written through them.
std::array<torch::Tensor, 8> tensors_of(const EpisodeBatch& batch) {
  return {batch.observation,
          batch.previous_action_BT1,
          batch.previous_reward_BT1,
          batch.action_BT,
          batch.reward_BT,
          batch.terminated_BT,
          batch.steps_B,
          batch.mask_BT};
}

}  // namespace

struct SacLearner::Recording {
  static constexpr int kWarmUp = 3;  // updates without a recording, in which libraries make their plans

  // The recorded batch's memory, with the contents of `given`.
  const EpisodeBatch& take(const EpisodeBatch& given) {
    const auto own = tensors_of(batch), other = tensors_of(given);
    const auto all = [&](auto same) { return std::ranges::equal(own, other, same); };
    if (all([](const torch::Tensor& a, const torch::Tensor& b) { return a.is_same(b); })) return batch;
    if (!all([](const torch::Tensor& a, const torch::Tensor& b) { return a.defined() && a.sizes() == b.sizes(); })) {
      restart(given);
      return batch;
    }
    if (!copies) {
      restart({given.observation.clone(), given.previous_action_BT1.clone(), given.previous_reward_BT1.clone(),
               given.action_BT.clone(), given.reward_BT.clone(), given.terminated_BT.clone(), given.steps_B.clone(),
               given.mask_BT.clone()});
      copies = true;
      return batch;
    }
    for (std::size_t i = 0; i < own.size(); ++i) own[i].copy_(other[i]);
    return batch;
  }

  void restart(const EpisodeBatch& with) {
    batch = with;
    copies = false;
    launched = 0;
    graph = std::make_unique<DeviceGraph>();
  }

  SideStream stream{fused::kLearnerPriority};
  EpisodeBatch batch;   // what the recording reads
  bool copies = false;  // the batch is the recording's own
  int launched = 0;
  std::unique_ptr<DeviceGraph> graph;
  LossReport report;
};
#else
struct SacLearner::Recording {};
#endif

SacLearner::SacLearner(const SacOptions& options, std::shared_ptr<AgentNetwork> network)
    : options_((options.check(), options)),
      network_(std::move(network)),
      log_alpha_(
          torch::full({}, std::log(options.alpha), network_->parameters().front().options().requires_grad(true))),
      optimizer_(network_->trainable_parameters(), options.learning_rate),
      temperature_optimizer_({log_alpha_}, options.learning_rate),
      watch_(torch::zeros({4}, torch::dtype(torch::kInt64).device(log_alpha_.device()))) {
#ifdef ENGRAM_WITH_CUDA
  if (log_alpha_.is_cuda()) recording_ = std::make_unique<Recording>();
#endif
}

SacLearner::~SacLearner() = default;

void SacLearner::launch_every_update() { recording_.reset(); }

LossReport SacLearner::update(const EpisodeBatch& batch) {
  if (!network_->is_training()) throw std::logic_error("an update of a network in evaluation mode");
#ifdef ENGRAM_WITH_CUDA
  if (recording_) {
    Recording& recording = *recording_;
    recording.stream.run([&] {
      const EpisodeBatch& own = recording.take(batch);
      if (recording.launched < Recording::kWarmUp) {
        ++recording.launched;
        recording.report = launch_update(own);
        return;
      }
      if (!recording.graph->captured()) recording.graph->capture([&] { recording.report = launch_update(own); });
      recording.graph->replay();
    });
    return recording.report;
  }
#endif
  return launch_update(batch);
}

LossReport SacLearner::launch_update(const EpisodeBatch& batch) {
  LossReport report;
  report.alpha = alpha();
  const SacLoss loss = sac_loss(*network_, batch, report.alpha, options_.gamma);
  report.critic_loss = 0.5 * (loss.critic1 + loss.critic2);
  report.actor_loss = loss.actor;
  report.entropy = loss.entropy;
  report.mean_q = loss.mean_q;

  const std::vector<torch::Tensor> gradients = gradients_of(loss);
  const WatchedUpdate watched = watch_update(loss.total, list_norms(gradients), watch_);
  report.gradient_norm = watched.norm;
  if (options_.clip_gradient_norm > 0)
    torch::_foreach_mul_(gradients, (options_.clip_gradient_norm / report.gradient_norm).clamp_max(1));
  optimizer_.step(watched.bad);
  network_->update_targets(options_.target_rate);
  if (options_.temperature == Temperature::kLearnt) update_temperature(loss.entropy, watched.bad);
  return report;
}

std::vector<torch::Tensor> SacLearner::gradients_of(const SacLoss& loss) {
  optimizer_.zero_gradients();
#ifdef ENGRAM_WITH_CUDA
  if (loss.total.is_cuda()) {
    fused::LateWeightGradients late;
    loss.backward();
    std::vector<torch::Tensor> gradients = optimizer_.gradients();
    late.join(gradients);
    return gradients;
  }
#endif
  loss.backward();
  return optimizer_.gradients();
}

// Descends log(alpha) (H - target): alpha falls while the policy's entropy H is above the target.
void SacLearner::update_temperature(const torch::Tensor& entropy, const torch::Tensor& skip) {
  const double target = options_.target_entropy_fraction * std::log(static_cast<double>(network_->num_actions()));
  log_alpha_.mutable_grad() = entropy - target;
  temperature_optimizer_.step(skip);
  const torch::NoGradGuard no_grad;
  log_alpha_.clamp_(std::log(options_.alpha_min), std::log(options_.alpha_max));
}

SacLearner::Faults SacLearner::faults() const {
  const torch::Tensor watch = watch_.cpu();
  const std::int64_t* const values = watch.const_data_ptr<std::int64_t>();
  if (values[1] == 0) return {};
  std::vector<std::string> names = {"the loss"};
  for (const auto& item : network_->named_parameters())
    if (item.value().requires_grad()) names.push_back("the gradient of " + item.key());
  return {values[1], values[2], names.at(static_cast<std::size_t>(values[3]))};
}

void SacLearner::visit_state(StateArchive& archive) {
  archive.within("network", [&] { network_->visit_state(archive); });
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
