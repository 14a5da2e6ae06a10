#include "agents/learn/learner.h"

#include <cstddef>
#include <stdexcept>
#include <utility>

#include "agents/learn/optimizer/parameter_lists.h"
#include "nn/fused/weights/late_gradients.h"

namespace engram {

Learner::Learner(const LearnerConfig& config, std::shared_ptr<AgentNetwork> network,
                 std::optional<LowRankAdapters> adapters, std::shared_ptr<Ranks> ranks)
    : options_((config.check(), config.optimizer())),
      network_(std::move(network)),
      algorithm_(config.make_algorithm(*network_)),
      adapters_(std::move(adapters)),
      weights_(network_->parameters().front().options().requires_grad(false)),
      optimizer_(adapters_ ? adapters_->parameters() : network_->trainable_parameters(), options_.learning_rate,
                 options_.weight_decay),
      watch_(torch::zeros({4}, weights_.dtype(torch::kInt64))),
      ranks_(std::move(ranks)),
      device_sum_(ranks_->alone() || weights_.device().is_cpu()
                      ? nullptr
                      : std::make_unique<DeviceSum>(ranks_, weights_.device())),
      step_(weights_.device()),
      estimating_(weights_.device()),
      adding_(weights_.device()),
      averaging_(weights_.device()) {}

OnPolicy& Learner::on_policy() {
  OnPolicy* const on_policy = algorithm_->on_policy();
  if (on_policy == nullptr) throw std::logic_error("a learner from replay has no iterations");
  return *on_policy;
}

void Learner::anneal(double progress) { set_learning_rate(on_policy().learning_rate(progress)); }

AdvantageEstimate Learner::estimate_advantages(const EpisodeBatch& batch) {
  const std::vector<torch::Tensor> values =
      estimating_.run(batch.tensors(), [this](const std::vector<torch::Tensor>& inputs) {
        const torch::NoGradGuard no_grad;
        const AdvantageEstimate estimate = on_policy().estimate_advantages(*network_, EpisodeBatch::of(inputs));
        return std::vector<torch::Tensor>{estimate.value_BT, estimate.advantage_BT};
      });
  return {values.at(0), values.at(1)};
}

std::vector<std::string> Learner::scalar_names() const {
  std::vector<std::string> names = algorithm_->scalar_names();
  names.emplace_back("gradient_norm");
  return names;
}

void Learner::check_training() const {
  if (!network_->is_training()) throw std::logic_error("an update of a network in evaluation mode");
}

NamedScalars Learner::with_names(const std::vector<torch::Tensor>& scalars) const {
  const std::vector<std::string> names = scalar_names();
  NamedScalars pairs;
  for (std::size_t i = 0; i < names.size(); ++i) pairs.emplace_back(names[i], scalars.at(i));
  return pairs;
}

NamedScalars Learner::update(const EpisodeBatch& batch) {
  check_training();
  const auto learn = [this](const std::vector<torch::Tensor>& inputs) {
    const EpisodeBatch batch = EpisodeBatch::of(inputs);
    see_minibatch(1, [&](std::size_t) { return batch; });
    return step(learn_from(batch), ranks_->alone() ? torch::Tensor() : batch.mask_BT.sum());
  };
  std::vector<torch::Tensor> values;
  summed_ = false;
  explaining([&] { values = step_.run(batch.tensors(), learn); });
  return with_names(values);
}

NamedScalars Learner::update_in_parts(std::size_t parts, const std::function<EpisodeBatch(std::size_t)>& part) {
  check_training();
  const auto add = [this](const std::vector<torch::Tensor>& inputs) {
    add_to_sums(EpisodeBatch::of(inputs));
    return std::vector<torch::Tensor>();
  };
  const auto average = [this](const std::vector<torch::Tensor>&) { return step(average_of_sums(), sums_.back()); };
  std::vector<torch::Tensor> values;
  summed_ = false;
  explaining([&] {
    see_minibatch(parts, part);
    begin_sums();
    for (std::size_t i = 0; i < parts; ++i) adding_.run(part(i).tensors(), add);
    values = averaging_.run({}, average);
  });
  return with_names(values);
}

void Learner::see_minibatch(std::size_t parts, const std::function<EpisodeBatch(std::size_t)>& part) {
  OnPolicy* const on_policy = algorithm_->on_policy();
  if (on_policy == nullptr || !on_policy->sees_minibatches()) return;
  const torch::NoGradGuard no_grad;
  on_policy->begin_minibatch();
  for (std::size_t i = 0; i < parts; ++i) on_policy->see_part(part(i));
  on_policy->all_seen(sum_over_ranks());
}

// Outside of every recording, which lets go of its own memory.
void Learner::begin_sums() {
  const torch::NoGradGuard no_grad;
  if (sums_.empty()) {
    for (const torch::Tensor& parameter : optimizer_.parameters())
      sums_.push_back(torch::zeros_like(parameter, torch::requires_grad(false)));
    for (std::size_t i = 0; i < algorithm_->scalar_names().size() + 2; ++i) sums_.push_back(torch::zeros({}, weights_));
  }
  torch::_foreach_zero_(sums_);
}

void Learner::add_to_sums(const EpisodeBatch& part) {
  const Learnt learnt = learn_from(part);
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> means = learnt.gradients;
  for (const auto& [name, value] : learnt.scalars) means.push_back(value);
  means.push_back(learnt.total);
  means.push_back(torch::ones_like(learnt.total));
  for (torch::Tensor& mean : means) mean = mean.to(weights_.dtype());
  torch::_foreach_add_(sums_, torch::_foreach_mul(means, part.mask_BT.sum().to(weights_.dtype())));
}

// In the memory of the sums, of which the number of steps stays.
Learner::Learnt Learner::average_of_sums() {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> means(sums_.begin(), sums_.end() - 1);
  torch::_foreach_div_(means, sums_.back());
  Learnt learnt;
  learnt.total = means.back();
  means.pop_back();
  const std::vector<std::string> names = algorithm_->scalar_names();
  learnt.means.assign(means.end() - static_cast<std::ptrdiff_t>(names.size()), means.end());
  for (std::size_t i = 0; i < names.size(); ++i) learnt.scalars.emplace_back(names[i], learnt.means[i]);
  learnt.gradients.assign(means.begin(), means.end() - static_cast<std::ptrdiff_t>(names.size()));
  optimizer_.set_gradients(learnt.gradients);
  return learnt;
}

Learner::Learnt Learner::learn_from(const EpisodeBatch& batch) {
  const Loss loss = algorithm_->loss(*network_, batch);
  optimizer_.zero_gradients();
  if (adapters_) adapters_->zero_gradients();
  std::vector<torch::Tensor> gradients = late_gradients(
      weights_.device(), [&] { loss.backward(); },
      [&] { return adapters_ ? adapters_->network_gradients() : optimizer_.gradients(); });
  if (adapters_) {
    adapters_->set_gradients();
    gradients = optimizer_.gradients();
  }
  return {loss.total.detach(), loss.scalars, loss.means, gradients};
}

std::vector<torch::Tensor> Learner::step(const Learnt& learnt, const torch::Tensor& steps) {
  if (!ranks_->alone()) {
    std::vector<torch::Tensor> means = learnt.gradients;
    means.push_back(learnt.total);
    means.insert(means.end(), learnt.means.begin(), learnt.means.end());
    average_over_ranks(means, steps);
  }
  const WatchedUpdate watched = watch_update(learnt.total, list_norms(learnt.gradients), watch_);
  if (options_.clip_gradient_norm > 0)
    torch::_foreach_mul_(learnt.gradients, (options_.clip_gradient_norm / watched.norm).clamp_max(1));
  const torch::Tensor held_back = algorithm_->holds_back(learnt.scalars);
  const torch::Tensor skipped = held_back.defined() ? torch::maximum(watched.bad, held_back) : watched.bad;
  optimizer_.step(skipped);
  if (adapters_) adapters_->merge();
  algorithm_->after_step(*network_, learnt.scalars, skipped);
  std::vector<torch::Tensor> scalars;
  for (const auto& [name, value] : learnt.scalars) scalars.push_back(value);
  scalars.push_back(watched.norm);
  return scalars;
}

// Every loss is a mean over the valid steps, and so is its gradient: in place, those over all ranks' steps of means
// over this rank's. One sum of everything that there is.
void Learner::average_over_ranks(const std::vector<torch::Tensor>& means, const torch::Tensor& steps) const {
  const torch::NoGradGuard no_grad;
  const auto dtype = weights_.dtype();
  std::vector<torch::Tensor> flat;
  std::vector<std::int64_t> sizes;
  for (const torch::Tensor& mean : means) {
    flat.push_back(mean.reshape({-1}).to(dtype));
    sizes.push_back(mean.numel());
  }
  flat.push_back(torch::ones({1}, weights_));
  sizes.push_back(1);
  torch::Tensor sums = torch::cat(flat) * steps.to(dtype);
  add_up(sums);
  sums /= sums[-1].clone();
  std::vector<torch::Tensor> averages = sums.split_with_sizes(sizes);
  averages.pop_back();
  for (std::size_t i = 0; i < means.size(); ++i) averages[i] = averages[i].view_as(means[i]);
  torch::_foreach_copy_(means, averages);
}

void Learner::add_up(torch::Tensor& sums) const {
  if (device_sum_)
    device_sum_->add_up(sums);
  else
    ranks_->add_up(sums);
}

// What waits for the sums of ranks fails where one of them is lost, and says so.
void Learner::explaining(const std::function<void()>& work) const {
  if (device_sum_)
    device_sum_->explaining(work);
  else
    work();
}

Faults Learner::faults() const {
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

void Learner::visit_state(StateArchive& archive) {
  archive.within("network", [&] { network_->visit_state(archive); });
  if (adapters_) archive.within("adapters", [&] { adapters_->visit_state(archive); });
  archive.tensor("watch", watch_);
  if (archive.restoring() &&
      (watch_[3].item<std::int64_t>() < 0 ||
       watch_[3].item<std::int64_t>() > static_cast<std::int64_t>(optimizer_.parameters().size())))
    archive.refuse("watch", "there is no such tensor");
  archive.within("adam", [&] { optimizer_.visit_state(archive); });
  algorithm_->visit_state(archive);
}

}  // namespace engram
