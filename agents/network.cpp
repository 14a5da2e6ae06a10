#include "agents/network.h"

#include <cmath>
#include <string>

#include "agents/parameter_lists.h"
#include "base/error.h"

#ifdef ENGRAM_WITH_CUDA
#include "agents/gpu_network.h"
#endif

namespace engram {
namespace {

constexpr double kCriticBound = 3e-3;
constexpr double kActorBound = 1e-3;
constexpr std::int64_t kChannels1 = 8;
constexpr std::int64_t kChannels2 = 16;
constexpr std::int64_t kKernel = 2;

void init_hidden(torch::nn::Linear& layer) {
  const double bound = 1 / std::sqrt(static_cast<double>(layer->weight.size(0)));
  torch::nn::init::uniform_(layer->weight, -bound, bound);
  torch::nn::init::constant_(layer->bias, 0.1);
}

}  // namespace

void NetworkOptions::list_options(OptionList& list) {
  list.add("previous_action_width", previous_action_width, {0, 4096},
           "width of the embedding of the previous action; 0: the agent does not see it");
  list.add("previous_reward_width", previous_reward_width, {0, 4096},
           "width of the embedding of the previous reward; 0: the agent does not see it");
  list.add("hidden_width", hidden_width, {1, 65536}, "width of the two hidden layers of actor and critics");
  list.add("dropout", dropout, {0, 0.99}, "probability of dropping an encoded input while training");
}

HeadImpl::HeadImpl(std::int64_t width, std::int64_t hidden_width, std::int64_t num_actions, double last_layer_bound)
    : hidden1_(register_module("hidden1", torch::nn::Linear(width, hidden_width))),
      hidden2_(register_module("hidden2", torch::nn::Linear(hidden_width, hidden_width))),
      output_(register_module("output", torch::nn::Linear(hidden_width, num_actions))) {
  init_hidden(hidden1_);
  init_hidden(hidden2_);
  torch::nn::init::uniform_(output_->weight, -last_layer_bound, last_layer_bound);
  torch::nn::init::uniform_(output_->bias, -last_layer_bound, last_layer_bound);
}

torch::Tensor HeadImpl::forward(const torch::Tensor& hidden) {
  return output_(hidden2_(hidden1_(hidden).relu_()).relu_());
}

AgentNetwork::AgentNetwork(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                           std::uint64_t seed)
    : num_actions_(task.num_actions()),
      observation_shape_(task.observation.shape),
      dropout_(register_module("dropout", std::make_shared<Dropout>(options.dropout))) {
  const std::int64_t width = backbone.width();
  // The longest sequence: one row more than steps.
  backbone_ = register_module("backbone", make_backbone(backbone, task.max_episode_steps + 1));

  if (observation_shape_.size() == 3) {
    const std::int64_t rows = observation_shape_[1], columns = observation_shape_[2];
    if (rows < 3 || columns < 3)
      throw UserError("an image of " + std::to_string(rows) + " x " + std::to_string(columns) +
                      " is too small for the encoder, which needs 3 x 3");
    convolution1_ = register_module(
        "convolution1", torch::nn::Conv2d(torch::nn::Conv2dOptions(observation_shape_[0], kChannels1, kKernel)));
    convolution2_ =
        register_module("convolution2", torch::nn::Conv2d(torch::nn::Conv2dOptions(kChannels1, kChannels2, kKernel)));
    observation_ = register_module("observation", torch::nn::Linear(kChannels2 * (rows - 2) * (columns - 2), width));
  } else {
    observation_ = register_module("observation", torch::nn::Linear(task.observation.elements(), width));
  }

  if (options.previous_action_width > 0)
    previous_action_ =
        register_module("previous_action", torch::nn::Embedding(num_actions_ + 1, options.previous_action_width));
  if (options.previous_reward_width > 0)
    previous_reward_ = register_module("previous_reward", torch::nn::Linear(1, options.previous_reward_width));
  if (previous_action_ || previous_reward_)
    joined_ = register_module(
        "joined", torch::nn::Linear(width + options.previous_action_width + options.previous_reward_width, width));

  const auto make_head = [&](const char* name, double bound) {
    return register_module(name, Head(width, options.hidden_width, num_actions_, bound));
  };
  actor_ = make_head("actor", kActorBound);
  critic1_ = make_head("critic1", kCriticBound);
  critic2_ = make_head("critic2", kCriticBound);
  target_critic1_ = make_head("target_critic1", kCriticBound);
  target_critic2_ = make_head("target_critic2", kCriticBound);
  for (Head* target : {&target_critic1_, &target_critic2_})
    for (torch::Tensor& parameter : (*target)->parameters()) parameter.requires_grad_(false);
  update_targets(1);
  dropout_clock_ = seed_dropout(*this, seed);
}

torch::Tensor AgentNetwork::encode(const torch::Tensor& observation, const torch::Tensor& previous_action,
                                   const torch::Tensor& previous_reward) {
  const auto leading = previous_action.sizes();
  torch::Tensor encoded = encode_observation(observation.reshape({previous_action.numel(), -1}));
  if (joined_) encoded = join_previous(encoded, previous_action, previous_reward);
  std::vector<std::int64_t> shape(leading.begin(), leading.end());
  shape.push_back(encoded.size(-1));
  if (is_training()) dropout_clock_->tick();
  return dropout_->forward(encoded).reshape(shape);
}

torch::Tensor AgentNetwork::encode_observation(const torch::Tensor& observation) {
#ifdef ENGRAM_WITH_CUDA
  if (use_kernels_ && GpuEncoder::takes(observation, observation_->weight)) {
    const GpuEncoder encoder(observation, compute_dtype_);
    return convolution1_ ? encoder.image(observation_shape_, convolution1_, convolution2_, observation_)
                         : encoder.vector(observation_);
  }
#endif
  std::vector<std::int64_t> shape{-1};
  shape.insert(shape.end(), observation_shape_.begin(), observation_shape_.end());
  torch::Tensor input = observation.reshape(shape).to(observation_->weight.scalar_type());
  if (observation.scalar_type() == torch::kUInt8) input.div_(255);
  if (!convolution1_) return observation_(input.flatten(1)).relu_();
  input = convolution2_(convolution1_(input).relu_()).relu_();
  return observation_(input.flatten(1));
}

torch::Tensor AgentNetwork::join_previous(const torch::Tensor& encoded, const torch::Tensor& previous_action,
                                          const torch::Tensor& previous_reward) {
  std::vector<torch::Tensor> parts{encoded.to(joined_->weight.scalar_type())};
  if (previous_action_) parts.push_back(previous_action_(previous_action.reshape(-1)));
  if (previous_reward_)
    parts.push_back(previous_reward_(previous_reward.reshape({-1, 1}).to(parts[0].scalar_type())).relu_());
  return joined_(torch::cat(parts, -1)).to(encoded.scalar_type());
}

torch::Tensor AgentNetwork::features(const torch::Tensor& encoded_BTD, const torch::Tensor& lengths_B) {
  return use_kernels_ ? backbone_->forward_fresh(encoded_BTD, lengths_B)
                      : backbone_->forward(encoded_BTD, lengths_B).output_BTD;
}

AgentNetwork::HeadOutputs AgentNetwork::heads(const torch::Tensor& features) {
#ifdef ENGRAM_WITH_CUDA
  if (use_kernels_ && gpu_heads_take(features, actor_->layers())) {
    const GpuHeads out = gpu_heads(features, {actor_->layers(), critic1_->layers(), critic2_->layers()},
                                   {target_critic1_->layers(), target_critic2_->layers()});
    return {out.learning[0], {out.learning[1], out.learning[2]}, {out.targets[0], out.targets[1]}};
  }
#endif
  const auto input = features.to(observation_->weight.scalar_type());
  HeadOutputs outputs{actor_logits(input), critics(input), {}};
  const torch::NoGradGuard no_grad;
  outputs.target_q = target_critics(input);
  return outputs;
}

void AgentNetwork::update_targets(double tau) {
  const torch::NoGradGuard no_grad;
  std::vector<torch::Tensor> targets, critics;
  for (const auto& [target, critic] : {std::pair(target_critic1_, critic1_), std::pair(target_critic2_, critic2_)}) {
    for (const torch::Tensor& parameter : target->parameters()) targets.push_back(parameter);
    for (const torch::Tensor& parameter : critic->parameters()) critics.push_back(parameter);
  }
  move_towards(targets, critics, tau);
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
