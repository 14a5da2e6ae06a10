#include "storage/tensors/weights.h"

#include <cstdint>

#include "base/error.h"

namespace engram {
namespace {

std::string shape_text(const torch::Tensor& tensor) {
  std::string text;
  for (const std::int64_t size : tensor.sizes()) text += (text.empty() ? "" : ", ") + std::to_string(size);
  return "[" + text + "]";
}

}  // namespace

TensorMap module_weights(const torch::nn::Module& module) {
  TensorMap weights;
  for (const auto& item : module.named_parameters()) weights[item.key()] = item.value().detach();
  return weights;
}

TensorMap copied_weights(const torch::nn::Module& module) {
  TensorMap weights = module_weights(module);
  for (auto& [name, tensor] : weights) tensor = tensor.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return weights;
}

void load_module_weights(torch::nn::Module& module, const TensorMap& weights, const std::string& where) {
  const TensorMap parameters = module_weights(module);
  for (const auto& [name, parameter] : parameters) {
    const auto found = weights.find(name);
    if (found == weights.end()) throw UserError(where + ": tensor '" + name + "' is missing");
    const torch::Tensor& tensor = found->second;
    if (tensor.sizes() != parameter.sizes() || tensor.scalar_type() != parameter.scalar_type())
      throw UserError(where + ": tensor '" + name + "' is " + torch::toString(tensor.scalar_type()) + " " +
                      shape_text(tensor) + ", this config needs " + torch::toString(parameter.scalar_type()) + " " +
                      shape_text(parameter));
  }
  for (const auto& [name, tensor] : weights)
    if (!parameters.contains(name)) throw UserError(where + ": tensor '" + name + "' is unknown to this config");
  for (auto& [name, parameter] : parameters) torch::Tensor(parameter).copy_(weights.at(name));
}

}  // namespace engram
