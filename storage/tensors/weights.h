// The weights of modules as named tensors, for safetensors files.
#pragma once

#include <torch/torch.h>

#include <string>

#include "storage/tensors/safetensors.h"

namespace engram {

// All parameters of a module, by their names; views, not copies. load throws UserError if a tensor is missing, left
// over, or of another shape, and then changes nothing; `where` names the source in the message.
TensorMap module_weights(const torch::nn::Module& module);
// The same, copied to the CPU.
TensorMap copied_weights(const torch::nn::Module& module);
void load_module_weights(torch::nn::Module& module, const TensorMap& weights, const std::string& where);

}  // namespace engram
