#include "agents/act/one_kernel_policy.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/backbones/fast_weights/fast_weights.h"
#include "nn/device/cuda_support.h"

namespace engram {
namespace {

// Dropouts of acting are numbered from here on, after all that a network has.
constexpr std::uint32_t kFirstSite = 1 << 16;

// Returns nothing for a backbone that the kernel does not know.
std::optional<AgentStepShape> step_shape(const NetworkOptions& options, const BackboneConfig& backbone,
                                         const TaskInfo& task) {
  AgentStepShape shape;
  if (task.observation.is_image()) {
    const std::vector<std::int64_t> observation = task.observation.shape();
    shape.channels = static_cast<int>(observation[0]);
    shape.height = static_cast<int>(observation[1]);
    shape.columns = static_cast<int>(observation[2]);
  } else {
    shape.channels = static_cast<int>(task.observation.elements());
  }
  shape.observation_is_uint8 = task.observation.type == ElementType::kUint8;
  shape.hidden_width = options.hidden_width;
  shape.actions = task.num_actions();
  const auto take = [&](const auto& memory) {
    shape.width = memory.width;
    shape.inner_width = memory.inner_width();
    shape.layers = memory.layers;
    shape.heads = memory.heads;
    shape.beta_factor = static_cast<float>(memory.beta_factor);
  };
  if (const auto* const hqlt = backbone.as<HqltOptions>()) {
    if (!hqlt->has_deltanet() || hqlt->convolution || hqlt->output_gate) return std::nullopt;
    take(*hqlt);
    shape.window = hqlt->window;
    shape.rope = hqlt->positions == PositionCode::kRope;
    shape.mixing = hqlt->mixing == Mixing::kVector   ? AgentStepMixing::kVector
                   : hqlt->mixing == Mixing::kScalar ? AgentStepMixing::kScalar
                                                     : AgentStepMixing::kSum;
    shape.branch_norm = hqlt->branch_norm;
    return shape;
  }
  const auto* const fast_weights = backbone.as<FastWeightsOptions>();
  if (fast_weights == nullptr || !fast_weights->is_deltanet()) return std::nullopt;
  take(*fast_weights);
  return shape;
}

AgentStepShape supported_shape(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                               Dtype operands) {
  if (const Support support = OneKernelPolicy::supports(options, backbone, task, operands); !support)
    throw UserError("this agent cannot act on the GPU in one kernel: " + support.reason());
  return *step_shape(options, backbone, task);
}

AgentStepWeights step_weights(const AgentNetwork& network, const AgentStepShape& shape) {
  const auto parameters = network.named_parameters();
  const auto weight = [&](const std::string& name) -> const float* {
    const torch::Tensor& tensor = parameters[name];
    TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous() && tensor.scalar_type() == torch::kFloat32, name,
                " must be float32 and contiguous, on a GPU");
    return tensor.const_data_ptr<float>();
  };
  AgentStepWeights weights;
  if (shape.image()) {
    weights.convolution1 = weight("convolution1.weight"), weights.convolution1_bias = weight("convolution1.bias");
    weights.convolution2 = weight("convolution2.weight"), weights.convolution2_bias = weight("convolution2.bias");
  }
  weights.observation = weight("observation.weight"), weights.observation_bias = weight("observation.bias");
  for (int i = 0; i < shape.layers; ++i) {
    const auto in_block = [&](const char* name) { return weight("backbone.blocks." + std::to_string(i) + "." + name); };
    weights.layers.push_back(
        {in_block("mixer_norm.weight"), in_block("mixer.query.weight"), in_block("mixer.key.weight"),
         in_block("mixer.value.weight"), in_block("mixer.beta.weight"),
         shape.gate_rows() > 0 ? in_block("mixer.gate.weight") : nullptr, in_block("mixer.head_norm.weight"),
         in_block("mixer.output.weight"), in_block("mlp_norm.weight"), in_block("mlp.gate.weight"),
         in_block("mlp.up.weight"), in_block("mlp.down.weight")});
  }
  weights.norm = weight("backbone.norm.weight");
  weights.hidden1 = weight("actor.hidden1.weight"), weights.hidden1_bias = weight("actor.hidden1.bias");
  weights.hidden2 = weight("actor.hidden2.weight"), weights.hidden2_bias = weight("actor.hidden2.bias");
  weights.output = weight("actor.output.weight"), weights.output_bias = weight("actor.output.bias");
  return weights;
}

}  // namespace

Support OneKernelPolicy::supports(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                                  Dtype operands) {
  if (!task.observation.is_image() && !task.observation.is_vector())
    return Support::no("the observation is neither an image nor a vector: " + task.observation.text());
  if (task.action.continuous()) return Support::no("the action is continuous");
  const auto shape = step_shape(options, backbone, task);
  if (!shape)
    return Support::no("memory.name " + backbone.name() + " is neither hqlt nor deltanet with deltanet's fast weights");
  if (options.encoder == Encoder::kJoint) return Support::no("its encoder is the joint one");
  if (options.previous_action_width > 0 || options.previous_reward_width > 0)
    return Support::no("it sees previous actions or rewards");
  if (options.first_step_mark) return Support::no("it sees a mark of the first step");
  return AgentStepper::supports(*shape, operands);
}

OneKernelPolicy::OneKernelPolicy(std::shared_ptr<AgentNetwork> network, const NetworkOptions& options,
                                 const BackboneConfig& backbone, const TaskInfo& task, Dtype operands, int num_envs,
                                 std::uint64_t seed, MemorySpan span, std::uint32_t first_row)
    : Policy(std::move(network), torch::kFloat32, num_envs, seed, span, torch::kCUDA, first_row),
      shape_(supported_shape(options, backbone, task, operands)),
      stepper_(shape_, operands, step_weights(*network_, shape_)) {
  rows_.rows = num_envs;
  rows_.stream_N = stream_N();
  rows_.probabilities_NA = probabilities_NA_.data_ptr<float>();
  rows_.diverged = diverged_.data_ptr<std::int32_t>();
  auto next = memory_.tensors.begin();
  if (shape_.window > 0) rows_.position_N = (next++)->data_ptr<std::int64_t>();
  for (int i = 0; i < shape_.layers; ++i) {
    AgentStepRows::Layer& layer = rows_.layers[i];
    layer.fast_weights_NHKV = (next++)->data_ptr<float>();
    if (shape_.window == 0) continue;
    layer.key_ring_NSHK = (next++)->data_ptr<float>();
    layer.value_ring_NSHK = (next++)->data_ptr<float>();
  }

  dropping_ = rows_;
  std::int64_t* const seed_tick = network_->dropout_seed_tick(torch::kCUDA).data_ptr<std::int64_t>();
  std::uint32_t next_site = kFirstSite;
  const auto key = [&](double probability) { return DropoutKey(seed_tick, next_site++, probability); };
  dropping_.dropout_tick = seed_tick + 1;
  const double dropout = backbone.dropout();
  dropping_.encoder_dropout = key(options.dropout);
  dropping_.input_dropout = key(dropout);
  for (int i = 0; i < shape_.layers; ++i)
    dropping_.dropout[i] = {key(dropout), key(dropout), key(dropout), key(dropout), key(dropout)};
  refresh_weights();
}

void OneKernelPolicy::refresh_weights() { stepper_.pack_weights(current_stream()); }

void OneKernelPolicy::act(const ActingRows& rows, ActionChoice choice) {
  AgentStepRows& step = network_->is_training() ? dropping_ : rows_;
  step.observation_N = rows.observation_N.const_data_ptr();
  step.action_N = rows.action_N.data_ptr<std::int32_t>();
  step.fresh_N = rows.fresh_N.data_ptr<std::uint8_t>();
  step.greedy = choice == ActionChoice::kGreedy;
  if (span_ == MemorySpan::kStep) {
    torch::Tensor fresh_N = rows.fresh_N;
    fresh_N.fill_(1);
  }
  stepper_.step(step, current_stream());
}

}  // namespace engram
