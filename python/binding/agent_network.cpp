#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "python/binding/binding.h"
#include "python/binding/networks.h"
#include "storage/tensors/weights.h"

namespace engram::python {

namespace py = pybind11;
using torch::Tensor;

NativeAgentNetwork::NativeAgentNetwork(const Settings& settings)
    : NativeAgentNetwork(Config::from_settings(settings)) {}

NativeAgentNetwork::NativeAgentNetwork(const Config& config)
    : NativeAgentNetwork(config, draw_network(config, config.task.info(), torch::kCPU)) {}

NativeAgentNetwork::NativeAgentNetwork(const TrainedAgent& agent)
    : NativeAgentNetwork(agent.config, make_network(agent.config, agent.config.task.info(), agent.device())) {
  load_module_weights(*network_, module_weights(*agent.network), "the agent");
}

NativeAgentNetwork::NativeAgentNetwork(Config config, std::shared_ptr<AgentNetwork> network)
    : NativeNetwork(network), config_(std::move(config)), task_(config_.task.info()), network_(std::move(network)) {}

Settings NativeAgentNetwork::settings() const {
  Settings settings{{"task.name", config_.task.name()},
                    {"memory.name", config_.memory.name()},
                    {"learner.name", config_.learner.name()}};
  for (const OptionValue& option : config_.values()) settings.emplace_back(option.name, option.text);
  return settings;
}

std::vector<Road> NativeAgentNetwork::roads(torch::ScalarType dtype, torch::Device device) {
  const Pass pass(*this, network_->is_training());
  const c10::OptionalDeviceGuard current(device);
  network_->compute_in(dtype);
  return network_->roads(device);
}

void NativeAgentNetwork::check_inputs(const std::vector<Tensor>& inputs) const {
  const Tensor &observation = inputs.at(0), &previous_action = inputs.at(1), &previous_reward = inputs.at(2),
               &lengths_B = inputs.at(3);
  check_input("observation", observation);
  check_input("previous_action", previous_action);
  check_input("previous_reward", previous_reward);
  check_input("lengths", lengths_B);
  const auto type = task_.observation.type == ElementType::kUint8 ? torch::kUInt8 : torch::kFloat32;
  TORCH_CHECK_VALUE(observation.scalar_type() == type, "observation is ", observation.scalar_type(), "; task ",
                    task_.name, " gives ", type);
  const bool continuous = task_.action.continuous();
  if (continuous) {
    TORCH_CHECK_VALUE(previous_action.dim() == 3 && previous_action.size(0) >= 1 &&
                          previous_action.size(2) == task_.action.words() && previous_action.is_floating_point(),
                      "previous_action must be floating [batch, time, ", task_.action.words(), "], not ",
                      previous_action.scalar_type(), " ", previous_action.sizes());
  } else {
    TORCH_CHECK_VALUE(
        previous_action.dim() == 2 && previous_action.size(0) >= 1 && previous_action.scalar_type() == torch::kInt64,
        "previous_action must be int64 [batch, time], not ", previous_action.scalar_type(), " ",
        previous_action.sizes());
  }
  const at::IntArrayRef rows = previous_action.sizes().slice(0, 2);
  TORCH_CHECK_VALUE(previous_reward.sizes() == rows && previous_reward.is_floating_point(),
                    "previous_reward must be floating ", rows, ", not ", previous_reward.scalar_type(), " ",
                    previous_reward.sizes());
  std::vector<std::int64_t> shape = rows.vec();
  for (const std::int64_t size : task_.observation.shape()) shape.push_back(size);
  TORCH_CHECK_VALUE(observation.sizes() == shape, "observation has shape ", observation.sizes(), "; it must be ",
                    at::IntArrayRef(shape));
  if (continuous || !previous_action.is_cpu() || previous_action.numel() == 0) return;
  const auto [least, most] = previous_action.aminmax();
  for (const std::int64_t action : {least.item<std::int64_t>(), most.item<std::int64_t>()})
    TORCH_CHECK_VALUE(action >= 0 && action <= num_actions(), "previous_action must lie in 0..", num_actions(),
                      ", where ", num_actions(), " is none, not ", action);
}

std::vector<Tensor> NativeAgentNetwork::run(const std::vector<Tensor>& inputs, torch::ScalarType dtype) {
  check_inputs(inputs);
  TORCH_CHECK_VALUE(dtype != torch::kFloat16, "products of an agent's network are float32 or bfloat16, not float16");
  network_->compute_in(device().is_cuda() && dtype == torch::kBFloat16 ? dtype : torch::kFloat32);
  const Tensor features = network_->features(network_->encode(inputs[0], inputs[1], inputs[2]), inputs[3]);
  const HeadGroup::Outputs outputs = network_->heads(features);
  std::vector<Tensor> all{features.to(dtype)};
  all.insert(all.end(), outputs.learning.begin(), outputs.learning.end());
  all.insert(all.end(), outputs.targets.begin(), outputs.targets.end());
  const std::vector<HeadSpec> specs = heads();
  for (std::size_t i = 0; i < specs.size(); ++i)
    all[i + 1] = all[i + 1].narrow(-1, 0, specs[i].outputs).to(parameters_dtype());
  return all;
}

Tensor NativeAgentNetwork::draw_seed(torch::Device device) {
  network_->draw_dropout_seed(device);
  return network_->dropout_seed_tick(device);
}

void bind_agent_networks(py::module_& module) {
  py::class_<NativeAgentNetwork, NativeNetwork>(module, "AgentNetwork")
      .def(py::init<const Settings&>(), py::arg("settings"))
      .def("arguments", [](const NativeAgentNetwork& own) { return py::make_tuple(own.settings()); })
      .def_property_readonly("width", &NativeAgentNetwork::width)
      .def_property_readonly("num_actions", &NativeAgentNetwork::num_actions)
      .def("heads",
           [](const NativeAgentNetwork& own) {
             std::vector<std::pair<std::string, std::int64_t>> heads;
             for (const HeadSpec& head : own.heads()) heads.emplace_back(head.name, head.outputs);
             return heads;
           })
      .def("roads", &NativeAgentNetwork::roads, py::arg("dtype"), py::arg("device"));
}

}  // namespace engram::python
