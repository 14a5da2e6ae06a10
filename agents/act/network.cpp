#include "agents/act/network.h"

#include <algorithm>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/learn/optimizer/parameter_lists.h"
#include "memory/core/roads.h"
#include "nn/device/autocast.h"
#include "nn/device/plain_operations.h"
#include "nn/device/road.h"

namespace engram {

AgentNetwork::AgentNetwork(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                           std::uint64_t seed, const LearnerConfig& learner)
    : num_actions_(task.action.continuous() ? task.action.words() : task.num_actions()),
      seen_(options),
      dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))),
      learner_(learner) {
  const std::int64_t width = backbone.width();
  // The longest sequence: one row more than steps.
  backbone_ = register_module("backbone", make_backbone(backbone, task.max_episode_steps + 1));

  add_encoder(task.observation.parts, width, task.action.continuous());
  for (const HeadSpec& spec : learner.heads(num_actions_)) {
    Head head = register_module(spec.name, Head(width, options.hidden_width, spec.outputs, spec.bound));
    if (!spec.follows.empty())
      for (torch::Tensor& parameter : head->parameters()) parameter.requires_grad_(false);
    heads_.push_back({spec, head});
  }
  if (task.action.continuous()) add_action_scale(task.action.numbers);
  update_targets(1);
  dropout_clock_ = seed_dropout(*this, seed);
}

// In the type of the weights, on their device.
void AgentNetwork::add_action_scale(const std::vector<ActionNumber>& numbers) {
  std::vector<float> centre, half_range;
  for (const auto& [name, least, most] : numbers) {
    centre.push_back((least + most) / 2);
    half_range.push_back((most - least) / 2);
  }
  centre_ = register_buffer("action_centre", torch::tensor(centre));
  half_range_ = register_buffer("action_half_range", torch::tensor(half_range));
  log_deviation_ = register_parameter("log_deviation", torch::zeros_like(centre_));
}

// After the backbone, in the order in which weights are drawn.
void AgentNetwork::add_encoder(const std::vector<ObservationPart>& parts, std::int64_t width, bool continuous) {
  const int action = seen_.previous_action_width, reward = seen_.previous_reward_width, mark = seen_.first_step_mark;
  if (seen_.encoder == Encoder::kJoint) {
    beside_ = seen_beside(continuous);
    std::vector<ObservationPart> beside;
    for (const SeenBeside& own : beside_) beside.push_back(own.part);
    joint_.emplace(*this, parts, beside, seen_.hidden_width, width);
    return;
  }
  encoder_.emplace(*this, parts, seen_.token_width, width);
  if (action > 0 && continuous)
    previous_numbers_ = register_module("previous_action", torch::nn::Linear(num_actions_, action));
  else if (action > 0)
    previous_action_ = register_module("previous_action", torch::nn::Embedding(num_actions_ + 1, action));
  if (reward > 0) previous_reward_ = register_module("previous_reward", torch::nn::Linear(1, reward));
  const std::int64_t beside = action + reward + mark;
  if (beside > 0) joined_ = register_module("joined", torch::nn::Linear(width + beside, width));
}

torch::Tensor AgentNetwork::encode(const torch::Tensor& observation, const torch::Tensor& previous_action,
                                   const torch::Tensor& previous_reward) {
  const PlainOperations plain(!use_kernels_);
  const auto leading = previous_reward.sizes();
  const torch::Tensor rows = observation.reshape({previous_reward.numel(), -1});
  torch::Tensor encoded = joint_ ? joint_->encode(rows, beside(previous_action, previous_reward), compute_dtype_)
                                 : encoder_->encode(rows, compute_dtype_);
  if (joined_) encoded = join_previous(encoded, previous_action, previous_reward);
  std::vector<std::int64_t> shape(leading.begin(), leading.end());
  shape.push_back(encoded.size(-1));
  if (is_training()) dropout_clock_->tick();
  return dropout_->forward(encoded).reshape(shape);
}

std::vector<AgentNetwork::SeenBeside> AgentNetwork::seen_beside(bool continuous) const {
  using torch::Tensor;
  std::vector<SeenBeside> all;
  if (seen_.previous_action_width > 0 && continuous)
    all.push_back({{"previous_action", PartKind::kVector, {num_actions_}},
                   [](const AgentNetwork& network, const Tensor& action, const Tensor& reward) {
                     return network.bounded_or_zero(action).to(reward);
                   }});
  if (seen_.previous_action_width > 0 && !continuous)
    all.push_back({{"previous_action", PartKind::kTokens, {1}, num_actions_},
                   [](const AgentNetwork&, const Tensor& action, const Tensor& reward) {
                     return action.reshape({-1, 1}).to(reward);
                   }});
  if (seen_.previous_reward_width > 0)
    all.push_back(
        {{"previous_reward", PartKind::kVector, {1}}, [](const AgentNetwork&, const Tensor&, const Tensor& reward) {
           return reward.reshape({-1, 1});
         }});
  if (seen_.first_step_mark)
    all.push_back({{"first_step_mark", PartKind::kTokens, {1}, 2},
                   [](const AgentNetwork& network, const Tensor& action, const Tensor& reward) {
                     return network.is_none(action).logical_not().to(reward);
                   }});
  return all;
}

torch::Tensor AgentNetwork::beside(const torch::Tensor& previous_action, const torch::Tensor& previous_reward) const {
  std::vector<torch::Tensor> parts{torch::empty({previous_reward.numel(), 0}, previous_reward.options())};
  for (const SeenBeside& own : beside_) parts.push_back(own.numbers(*this, previous_action, previous_reward));
  return torch::cat(parts, -1);
}

torch::Tensor AgentNetwork::is_none(const torch::Tensor& previous_action) const {
  return continuous() ? previous_action.reshape({-1, num_actions_}).narrow(-1, 0, 1).isnan()
                      : (previous_action.reshape({-1, 1}) == num_actions_);
}

torch::Tensor AgentNetwork::bounded_or_zero(const torch::Tensor& previous_action) const {
  const torch::Tensor numbers = previous_action.reshape({-1, num_actions_}).to(centre_.scalar_type());
  return torch::clamp(numbers, centre_ - half_range_, centre_ + half_range_).nan_to_num(0);
}

torch::Tensor AgentNetwork::join_previous(const torch::Tensor& encoded, const torch::Tensor& previous_action,
                                          const torch::Tensor& previous_reward) {
  const ComputeIn products(encoded.device(), encoded.scalar_type());
  std::vector<torch::Tensor> parts{encoded.to(joined_->weight.scalar_type())};
  // A row of the table, as a product: on a GPU an embedding's backward pass sorts all indices.
  if (previous_action_)
    parts.push_back(torch::one_hot(previous_action.reshape(-1), num_actions_ + 1)
                        .to(parts[0].scalar_type())
                        .matmul(previous_action_->weight));
  if (previous_numbers_)
    parts.push_back(previous_numbers_(bounded_or_zero(previous_action).to(parts[0].scalar_type())).relu_());
  if (previous_reward_)
    parts.push_back(previous_reward_(previous_reward.reshape({-1, 1}).to(parts[0].scalar_type())).relu_());
  if (seen_.first_step_mark) parts.push_back(is_none(previous_action).to(parts[0].scalar_type()));
  return joined_(torch::cat(parts, -1)).to(encoded.scalar_type());
}

torch::Tensor AgentNetwork::features(const torch::Tensor& encoded_BTD, const torch::Tensor& lengths_B) {
  const PlainOperations plain(!use_kernels_);
  return backbone_->forward_fresh(encoded_BTD, lengths_B);
}

torch::Tensor AgentNetwork::step(const torch::Tensor& encoded_BD, MemoryState& memory) {
  const PlainOperations plain(!use_kernels_);
  return backbone_->step(encoded_BD, memory);
}

const AgentNetwork::NamedHead& AgentNetwork::find_head(const std::string& name) const {
  for (const NamedHead& own : heads_)
    if (own.spec.name == name) return own;
  throw std::out_of_range("the network has no head " + name);
}

torch::Tensor AgentNetwork::head(const std::string& name, const torch::Tensor& hidden) {
  const NamedHead& own = find_head(name);
  const PlainOperations plain(!use_kernels_);
  const HeadGroup alone{.learning = {own.head}, .targets = {}};
  const torch::ScalarType dtype = product_dtype(hidden.device(), hidden.scalar_type());
  if (torch::GradMode::is_enabled() || PlainOperations::on() || !alone.supports_kernels(dtype, hidden.device()))
    return Head(own.head)(hidden);
  return alone.outputs(hidden, dtype).learning[0].narrow(-1, 0, own.spec.outputs);
}

HeadGroup AgentNetwork::all_heads() const {
  HeadGroup group;
  for (const auto& [spec, head] : heads_) (spec.follows.empty() ? group.learning : group.targets).push_back(head);
  return group;
}

std::vector<HeadSpec> AgentNetwork::head_specs() const {
  std::vector<HeadSpec> specs;
  for (const auto& [spec, head] : heads_) specs.push_back(spec);
  std::ranges::stable_partition(specs, [](const HeadSpec& spec) { return spec.follows.empty(); });
  return specs;
}

HeadGroup::Outputs AgentNetwork::heads(const torch::Tensor& features) {
  const PlainOperations plain(!use_kernels_);
  return all_heads().outputs(features, compute_dtype_);
}

std::vector<Road> AgentNetwork::roads(torch::Device device) const {
  const torch::ScalarType dtype = compute_dtype_;
  const HeadGroup heads = all_heads();
  const Support heads_in_one = heads.supports_one_kernel(dtype, device);
  return {
      learning_road(*backbone_, use_kernels_, device, dtype),
      road_of("heads", heads.supports_kernels(dtype, device),
              heads_in_one ? heads_in_one : Support::no("a product a layer: " + heads_in_one.reason()), use_kernels_,
              device, dtype),
      road_of("encoder", encoder_ ? encoder_->supports_kernels(dtype, device) : joint_->supports_kernels(dtype, device),
              Support(), use_kernels_, device, dtype)};
}

void AgentNetwork::update_targets(double tau) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> targets, followed;
  for (const auto& [spec, head] : heads_) {
    if (spec.follows.empty()) continue;
    for (const torch::Tensor& parameter : head->parameters()) targets.push_back(parameter);
    for (const torch::Tensor& parameter : find_head(spec.follows).head->parameters()) followed.push_back(parameter);
  }
  if (!targets.empty()) move_towards(targets, followed, tau);  // a learner may have none
}

std::vector<torch::Tensor> AgentNetwork::trainable_parameters() const {
  std::vector<torch::Tensor> trainable;
  for (const torch::Tensor& parameter : parameters())
    if (parameter.requires_grad()) trainable.push_back(parameter);
  return trainable;
}

void AgentNetwork::visit_state(StateArchive& archive) {
  for (const auto& item : named_parameters()) {
    torch::Tensor parameter = item.value();
    archive.tensor(item.key(), parameter);
  }
  torch::Tensor seed_tick = dropout_clock_->seed_tick(parameters().front().device());
  archive.tensor("dropout_seed_tick", seed_tick);
}

}  // namespace engram
