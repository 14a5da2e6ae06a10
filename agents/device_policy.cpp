#include "agents/device_policy.h"

#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <cstring>
#include <type_traits>
#include <variant>
#include <vector>

#include "base/error.h"

namespace engram {
namespace {

// Returns nothing for a backbone that the kernel does not know.
std::optional<AgentStepShape> step_shape(const NetworkOptions& options, const BackboneConfig& backbone,
                                         const TaskInfo& task) {
  AgentStepShape shape;
  const std::vector<std::int64_t>& observation = task.observation.shape;
  if (observation.size() == 3) {
    shape.channels = static_cast<int>(observation[0]);
    shape.height = static_cast<int>(observation[1]);
    shape.columns = static_cast<int>(observation[2]);
  } else {
    shape.channels = static_cast<int>(task.observation.elements());
  }
  shape.observation_is_uint8 = task.observation.type == ElementType::kUint8;
  shape.hidden_width = options.hidden_width;
  shape.actions = task.num_actions();
  return std::visit(
      [&](const auto& memory) -> std::optional<AgentStepShape> {
        using Options = std::decay_t<decltype(memory)>;
        constexpr bool kHqlt = std::is_same_v<Options, HqltOptions>;
        if constexpr (kHqlt || std::is_same_v<Options, DeltaNetOptions>) {
          shape.width = memory.width;
          shape.inner_width = memory.inner_width();
          shape.layers = memory.layers;
          shape.heads = memory.heads;
          shape.beta_factor = static_cast<float>(memory.beta_factor);
          if constexpr (kHqlt) {
            shape.window = memory.window;
            shape.rope = memory.positions == PositionCode::kRope;
            shape.mixing = memory.mixing == Mixing::kVector   ? AgentStepMixing::kVector
                           : memory.mixing == Mixing::kScalar ? AgentStepMixing::kScalar
                                                              : AgentStepMixing::kSum;
          }
          return shape;
        }
        return std::nullopt;
      },
      backbone.variant());
}

AgentStepShape supported_shape(const NetworkOptions& options, const BackboneConfig& backbone, const TaskInfo& task,
                               Dtype operands) {
  if (const auto reason = DevicePolicy::unsupported(options, backbone, task, operands))
    throw UserError("this agent cannot act on the GPU in one kernel: " + *reason);
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

double memory_dropout(const BackboneConfig& backbone) {
  return std::visit(
      [](const auto& memory) -> double {
        if constexpr (requires { memory.dropout; }) return memory.dropout;
        return 0;
      },
      backbone.variant());
}

// LibTorch's own operations on `stream`, which may belong to anyone.
c10::cuda::CUDAStreamGuard on_stream(cudaStream_t stream) {
  return c10::cuda::CUDAStreamGuard(c10::cuda::getStreamFromExternal(stream, c10::cuda::current_device()));
}

}  // namespace

std::optional<std::string> DevicePolicy::unsupported(const NetworkOptions& options, const BackboneConfig& backbone,
                                                     const TaskInfo& task, Dtype operands) {
  const auto shape = step_shape(options, backbone, task);
  if (!shape) return "memory.name " + backbone.name() + " is neither hqlt nor deltanet";
  if (options.previous_action_width > 0 || options.previous_reward_width > 0)
    return "it sees previous actions or rewards";
  const Support kernel = AgentStepper::supports(*shape, operands);
  return kernel ? std::nullopt : std::optional(kernel.reason());
}

DevicePolicy::DevicePolicy(std::shared_ptr<AgentNetwork> network, const NetworkOptions& options,
                           const BackboneConfig& backbone, const TaskInfo& task, Dtype operands, int num_envs,
                           std::uint64_t seed, std::uint32_t stream, std::uint32_t first_place, Remembering remembering)
    : network_(std::move(network)),
      seed_(seed),
      remembering_(remembering),
      shape_(supported_shape(options, backbone, task, operands)),
      stepper_(shape_, operands, step_weights(*network_, shape_)),
      memory_(network_->backbone().initial_state(num_envs)) {
  const auto on_device = torch::TensorOptions(torch::kCUDA);
  fresh_N_ = torch::ones({num_envs}, on_device.dtype(torch::kUInt8));
  probabilities_NA_ = torch::zeros({num_envs, shape_.actions}, on_device.dtype(torch::kFloat32));
  diverged_ = torch::zeros({1}, on_device.dtype(torch::kInt32));
  seed_tick_ = torch::tensor({static_cast<std::int64_t>(seed), std::int64_t{0}}, torch::kInt64).to(torch::kCUDA);
  stream_N_ = torch::empty({static_cast<std::int64_t>(num_envs * sizeof(Rng))}, on_device.dtype(torch::kUInt8));

  rows_.rows = num_envs;
  rows_.fresh_N = fresh_N_.data_ptr<std::uint8_t>();
  rows_.stream_N = reinterpret_cast<Rng*>(stream_N_.data_ptr<std::uint8_t>());
  rows_.probabilities_NA = probabilities_NA_.data_ptr<float>();
  rows_.diverged = diverged_.data_ptr<int>();
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
  std::uint32_t next_place = first_place;
  const auto place = [&](double probability) {
    return DropoutPlace(seed_tick_.const_data_ptr<std::int64_t>(), next_place++, probability);
  };
  dropping_.dropout_tick = seed_tick_.data_ptr<std::int64_t>() + 1;
  const double dropout = memory_dropout(backbone);
  dropping_.encoder_dropout = place(options.dropout);
  dropping_.input_dropout = place(dropout);
  for (int i = 0; i < shape_.layers; ++i)
    dropping_.dropout[i] = {place(dropout), place(dropout), place(dropout), place(dropout), place(dropout)};
  draw_from(stream);
  stepper_.pack_weights(c10::cuda::getCurrentCUDAStream());
}

void DevicePolicy::refresh_weights(cudaStream_t stream) { stepper_.pack_weights(stream); }

// In place: a captured step reads the streams where they are.
void DevicePolicy::draw_from(std::uint32_t stream) {
  const auto bytes = torch::empty({stream_N_.numel()}, torch::kUInt8);
  for (int row = 0; row < rows_.rows; ++row) {
    const Rng rng(seed_, Purpose::kAction, static_cast<std::uint32_t>(row), stream);
    std::memcpy(bytes.data_ptr<std::uint8_t>() + row * sizeof(Rng), &rng, sizeof rng);
  }
  stream_N_.copy_(bytes);
}

void DevicePolicy::reset_all(cudaStream_t stream) {
  check_cuda(cudaMemsetAsync(rows_.fresh_N, 1, static_cast<std::size_t>(rows_.rows), stream), "reset of the policy");
}

void DevicePolicy::reset_rows(const std::uint8_t* finished_N, cudaStream_t stream) {
  const auto guard = on_stream(stream);
  const auto finished = torch::from_blob(const_cast<std::uint8_t*>(finished_N), fresh_N_.sizes(), fresh_N_.options());
  fresh_N_.bitwise_or_(finished);
}

void DevicePolicy::act(const void* observation_N, std::int32_t* action_N, ActionChoice choice, cudaStream_t stream) {
  AgentStepRows& rows = network_->is_training() ? dropping_ : rows_;
  rows.observation_N = observation_N;
  rows.action_N = action_N;
  rows.greedy = choice == ActionChoice::kGreedy;
  if (remembering_ == Remembering::kNothing) reset_all(stream);
  stepper_.step(rows, stream);
}

bool DevicePolicy::diverged() const { return diverged_.item<int>() != 0; }

void DevicePolicy::visit_state(StateArchive& archive) {
  archive.tensor("random", stream_N_);
  archive.tensor("dropout_seed_tick", seed_tick_);
}

}  // namespace engram
