#include "python/binding/networks.h"

#include <ATen/autocast_mode.h>

#include <cstddef>
#include <map>
#include <stdexcept>

#include "nn/device/road.h"

namespace engram::python {

using torch::Tensor;
namespace autocast = at::autocast;

namespace {

using Tensors = std::vector<Tensor>;

// A forward pass between its outputs and what its gradients are wanted of.
struct Recorded {
  Tensors outputs, wanted;
};

// Those whose tickets live. A number of its own for each keeps a copied ticket from reading what is gone.
class Records {
 public:
  static Records& all() {
    static Records* const records = new Records;  // tickets may outlive the program's statics
    return *records;
  }

  Tensor ticket_of(Recorded recorded) {
    const std::lock_guard lock(lock_);
    const std::int64_t number = ++last_;
    recorded_.emplace(number, std::move(recorded));
    return torch::from_blob(
        new std::int64_t(number), {1},
        [](void* data) {
          const auto* const own = static_cast<std::int64_t*>(data);
          all().forget(*own);
          delete own;
        },
        torch::kInt64);
  }
  Recorded find(std::int64_t number) {
    const std::lock_guard lock(lock_);
    const auto found = recorded_.find(number);
    if (found == recorded_.end())
      throw std::runtime_error("no forward pass is recorded under ticket " + std::to_string(number));
    return found->second;
  }

 private:
  void forget(std::int64_t number) {
    Recorded gone;  // its tensors end without the lock
    const std::lock_guard lock(lock_);
    const auto found = recorded_.find(number);
    std::swap(gone, found->second);
    recorded_.erase(found);
  }

  std::mutex lock_;
  std::int64_t last_ = 0;
  std::map<std::int64_t, Recorded> recorded_;
};

Tensor apart_from(const Tensor& output, const Tensors& inputs) {
  for (const Tensor& input : inputs)
    if (output.is_alias_of(input)) return output.clone(at::MemoryFormat::Contiguous);
  return output.contiguous();
}

template <class Named>
NativeNetwork::NamedTensors listed(const Named& named) {
  NativeNetwork::NamedTensors list;
  for (const auto& item : named) list.emplace_back(item.key(), item.value());
  return list;
}

}  // namespace

NativeNetwork::Pass::Pass(NativeNetwork& network, bool training)
    : turn_(network.turn_), device_(network.device().type()), casts_before_(autocast::is_autocast_enabled(device_)) {
  if (network.module_->is_training() != training) network.module_->train(training);
  if (!casts_before_) return;
  autocast::clear_cache();  // weights in there may be older, or cast with gradients where now there are none
  autocast::set_autocast_enabled(device_, false);
}

NativeNetwork::Pass::~Pass() {
  if (!casts_before_) return;
  autocast::set_autocast_enabled(device_, true);
  autocast::clear_cache();
}

NativeNetwork::NamedTensors NativeNetwork::parameters() const { return listed(module_->named_parameters()); }
NativeNetwork::NamedTensors NativeNetwork::buffers() const { return listed(module_->named_buffers()); }

Tensors NativeNetwork::forward(const Tensors& inputs, torch::ScalarType dtype, bool training) {
  const Pass pass(*this, training);
  const Tensor seed = training ? draw_seed(device()) : Tensor();
  Tensors outputs = run(inputs, dtype);
  // Kernels draw once more in the backward pass, from a pointer to the seed.
  if (seed.defined() && seed.is_cuda())
    for (const Tensor& output : outputs)
      if (output.requires_grad() && !output.is_leaf()) output.register_hook([seed](const Tensor&) {});
  return outputs;
}

Tensors NativeNetwork::compiled_forward(const Tensors& inputs, torch::ScalarType dtype, bool training, bool recorded) {
  const torch::AutoGradMode records(recorded);
  Tensors leaves, wanted;
  for (const Tensor& input : inputs) {
    leaves.push_back(input.detach());
    if (recorded && input.is_floating_point()) wanted.push_back(leaves.back().requires_grad_());
  }
  if (recorded)
    for (const auto& [name, parameter] : parameters())
      if (parameter.requires_grad()) wanted.push_back(parameter);
  Tensors outputs = forward(leaves, dtype, training);
  for (Tensor& output : outputs) output = apart_from(output, inputs);
  Tensors given;
  for (const Tensor& output : outputs) given.push_back(output.detach());
  given.push_back(recorded ? Records::all().ticket_of({std::move(outputs), std::move(wanted)})
                           : torch::zeros({1}, torch::kInt64));
  return given;
}

Tensors NativeNetwork::backward(const Tensor& ticket, const Tensors& gradients) {
  const Recorded recorded = Records::all().find(ticket.item<std::int64_t>());
  Tensors outputs, of_outputs;
  for (std::size_t i = 0; i < recorded.outputs.size(); ++i)
    if (recorded.outputs[i].requires_grad()) {
      outputs.push_back(recorded.outputs[i]);
      of_outputs.push_back(gradients.at(i));
    }
  Tensors wanted = torch::autograd::grad(outputs, recorded.wanted, of_outputs, /*retain_graph=*/true,
                                         /*create_graph=*/false, /*allow_unused=*/true);
  for (std::size_t i = 0; i < wanted.size(); ++i)
    wanted[i] = wanted[i].defined() ? wanted[i].contiguous()
                                    : torch::zeros_like(recorded.wanted[i], torch::requires_grad(false));
  return wanted;
}

void NativeNetwork::check_input(const char* name, const Tensor& input) const {
  const torch::ScalarType own = parameters_dtype();
  TORCH_CHECK_VALUE(own == torch::kFloat32 || own == torch::kFloat64, "the parameters are ", type_name(own),
                    "; they must be float32 or float64, beside which an input may be bfloat16");
  TORCH_CHECK_VALUE(input.device() == device(), name, " is on ", input.device(), ", the parameters on ", device());
}

}  // namespace engram::python
