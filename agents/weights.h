// Tensors on disk: safetensors files (an 8-byte little-endian header length, a JSON header, raw little-endian
// tensors). Reading trusts nothing: every length, shape, dtype and offset is checked against the file.
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <map>
#include <string>

namespace engram {

using TensorMap = std::map<std::string, torch::Tensor>;

// Writes beside the file and renames, so that an interrupted save leaves the old file. CPU or GPU tensors of
// float64, float32, int64, int32 or uint8. Throws UserError if the path cannot be written.
void save_safetensors(const std::filesystem::path& file, const TensorMap& tensors,
                      const std::map<std::string, std::string>& metadata);

struct SafetensorsFile {
  TensorMap tensors;  // on the CPU
  std::map<std::string, std::string> metadata;
};
// Throws UserError for a missing or damaged file, saying what is wrong with it.
SafetensorsFile load_safetensors(const std::filesystem::path& file);

// All parameters of a module, by their names; views, not copies. load throws UserError if a tensor is missing, left
// over, or of another shape, and then changes nothing; `where` names the source in the message.
TensorMap module_weights(const torch::nn::Module& module);
void load_module_weights(torch::nn::Module& module, const TensorMap& weights, const std::string& where);

}  // namespace engram
