#include <torch/csrc/utils/pybind.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "memory/core/registry.h"
#include "memory/core/roads.h"
#include "nn/device/autocast.h"
#include "python/binding/binding.h"
#include "python/binding/networks.h"

namespace engram::python {

namespace py = pybind11;
using torch::Tensor;

namespace {

const std::string kPrefix = std::string(kMemorySection) + ".";

BackboneConfig config_of(const std::string& name, const Settings& options) {
  BackboneConfig config(name);
  OptionList list = config.options();
  for (const auto& [key, text] : options) list.set(kPrefix + key, text);
  return config;
}

// (name without the section, default, what is allowed, help)
using OptionTexts = std::tuple<std::string, std::string, std::string, std::string>;

std::vector<OptionTexts> backbone_options(const std::string& name) {
  std::vector<OptionTexts> texts;
  for (const OptionValue& option : BackboneConfig(name).values())
    texts.emplace_back(option.name.substr(kPrefix.size()), option.text, option.allowed, option.help);
  return texts;
}

}  // namespace

NativeBackbone::NativeBackbone(const std::string& name, std::int64_t max_steps, const Settings& options)
    : NativeBackbone(config_of(name, options), max_steps) {}

NativeBackbone::NativeBackbone(BackboneConfig config, std::int64_t max_steps)
    : NativeBackbone(config, max_steps, make_backbone(config, max_steps)) {}

NativeBackbone::NativeBackbone(BackboneConfig config, std::int64_t max_steps, std::shared_ptr<SequenceModel> model)
    : NativeNetwork(model),
      config_(std::move(config)),
      max_steps_(max_steps),
      model_(std::move(model)),
      clock_(seed_dropout(*model_, /*seed=*/0)) {}

Settings NativeBackbone::options() const {
  Settings options;
  for (const OptionValue& option : config_.values())
    options.emplace_back(option.name.substr(kPrefix.size()), option.text);
  return options;
}

std::vector<Road> NativeBackbone::roads(torch::ScalarType dtype, torch::Device device) const {
  return {learning_road(*model_, /*use_kernels=*/true, device, dtype), step_road(*model_, device, dtype)};
}

std::vector<std::pair<std::vector<std::int64_t>, bool>> NativeBackbone::state_layout() const {
  std::vector<std::pair<std::vector<std::int64_t>, bool>> layout;
  for (const Tensor& tensor : model_->initial_state(1).tensors)
    layout.emplace_back(tensor[0].sizes().vec(), tensor.is_floating_point());
  return layout;
}

Tensor NativeBackbone::in_product_type(const Tensor& input, torch::ScalarType dtype) const {
  const torch::ScalarType own = parameters_dtype();
  return input.to(input.is_cuda() && own == torch::kFloat32 ? dtype : own);
}

std::vector<Tensor> NativeBackbone::run(const std::vector<Tensor>& inputs, torch::ScalarType dtype) {
  const Tensor &x_BTD = inputs.at(0), &lengths_B = inputs.at(1);
  check_input("x", x_BTD);
  TORCH_CHECK_VALUE(lengths_B.device() == device(), "lengths are on ", lengths_B.device(), ", the parameters on ",
                    device());
  if (inputs.size() == 2) return {model_->forward_fresh(in_product_type(x_BTD, dtype), lengths_B).to(dtype)};
  const MemoryState initial{{inputs.begin() + 2, inputs.end()}};
  SequenceModel::Output output = model_->forward(x_BTD.to(parameters_dtype()), initial, lengths_B);
  std::vector<Tensor> all{output.output_BTD.to(dtype)};
  for (const Tensor& tensor : output.final_state.tensors) all.push_back(tensor.contiguous());  // step() writes into it
  return all;
}

Tensor NativeBackbone::draw_seed(torch::Device device) {
  clock_->draw_seed(device);
  return clock_->seed_tick(device);
}

Tensor NativeBackbone::step(const Tensor& input_BD, const std::vector<Tensor>& tensors, torch::ScalarType dtype,
                            bool training) {
  const Pass pass(*this, training);
  check_input("x", input_BD);
  MemoryState state{tensors};
  model_->check_state(state, input_BD.size(0));
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    TORCH_CHECK_VALUE(tensors[i].is_contiguous(), "memory state tensor ", i,
                      " is not contiguous; step() writes into it");
    TORCH_CHECK_VALUE(!tensors[i].requires_grad(), "memory state tensor ", i,
                      " has a gradient; step() writes into it and records none: detach() it");
  }
  if (training) draw_seed(device());
  const Tensor input = in_product_type(input_BD, dtype);
  const ComputeIn products(device(), input.scalar_type());
  return model_->step(input, state).to(dtype);
}

void bind_backbones(py::module_& module) {
  module.def("backbone_names", &backbone_names);
  module.def("backbone_options", &backbone_options, py::arg("name"));

  py::class_<Road>(module, "Road")
      .def_readonly("part", &Road::part)
      .def_readonly("road", &Road::road)
      .def_readonly("reason", &Road::reason)
      .def_readonly("fast", &Road::fast);
  py::class_<ModelCost>(module, "ModelCost")
      .def_readonly("parameters", &ModelCost::parameters)
      .def_readonly("state_bytes", &ModelCost::state_bytes)
      .def_readonly("multiply_adds_per_step", &ModelCost::multiply_adds_per_step)
      .def_readonly("mlp_parameters", &ModelCost::mlp_parameters)
      .def_readonly("mlp_multiply_adds_per_step", &ModelCost::mlp_multiply_adds_per_step);

  const auto unlocked = py::call_guard<py::gil_scoped_release>();
  py::class_<NativeNetwork>(module, "Network")
      .def("parameters", &NativeNetwork::parameters)
      .def("buffers", &NativeNetwork::buffers)
      .def("forward", &NativeNetwork::forward, py::arg("inputs"), py::arg("dtype"), py::arg("training"), unlocked)
      .def("compiled_forward", &NativeNetwork::compiled_forward, py::arg("inputs"), py::arg("dtype"),
           py::arg("training"), py::arg("recorded"), unlocked)
      .def_static("backward", &NativeNetwork::backward, py::arg("ticket"), py::arg("gradients"), unlocked);
  py::class_<NativeBackbone, NativeNetwork>(module, "Backbone")
      .def(py::init<const std::string&, std::int64_t, const Settings&>(), py::arg("name"), py::arg("max_steps"),
           py::arg("options"))
      .def("arguments",
           [](const NativeBackbone& own) { return py::make_tuple(own.name(), own.max_steps(), own.options()); })
      .def_property_readonly("name", &NativeBackbone::name)
      .def_property_readonly("max_steps", &NativeBackbone::max_steps)
      .def_property_readonly("width", &NativeBackbone::width)
      .def("options", &NativeBackbone::options)
      .def("cost", &NativeBackbone::cost)
      .def("roads", &NativeBackbone::roads, py::arg("dtype"), py::arg("device"))
      .def("state_layout", &NativeBackbone::state_layout)
      .def("step", &NativeBackbone::step, py::arg("x"), py::arg("state"), py::arg("dtype"), py::arg("training"),
           unlocked);
}

}  // namespace engram::python
