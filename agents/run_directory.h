// RunDirectory: everything that one training run leaves behind.
//
//   config.ini                  the resolved config, every value
//   about.json                  what built and ran it: version, commit, compiler, LibTorch, device, command line, start
//   metrics.jsonl               one JSON object a row, kinds "train" and "evaluation"
//   events.out.tfevents.*       the same rows for TensorBoard
//   weights/best.safetensors    of the best evaluation
//   weights/last.safetensors    of the last save
#pragma once

#include <torch/torch.h>

#include <filesystem>
#include <string>
#include <vector>

#include "agents/config.h"

namespace engram {

enum class WhichWeights { kBest, kLast };

class RunDirectory {
 public:
  // Creates the folder and its config.ini and about.json. Throws UserError if it exists and is not empty, or cannot be
  // written; then nothing is left behind. `command_line`: the arguments of the program, for about.json.
  static RunDirectory create(const std::filesystem::path& path, Config& config, torch::Device device,
                             const std::vector<std::string>& command_line);
  // Opens the directory of a finished or running run. Throws UserError if there is none.
  static RunDirectory open(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_file() const { return path_ / "config.ini"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path new_events_file() const;  // a name with the time in it
  std::filesystem::path weights_file(WhichWeights which) const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  std::filesystem::path path_;
};

// "cpu", or "cuda:0 (name of the GPU)" where it is known.
std::string device_text(torch::Device device);

}  // namespace engram
