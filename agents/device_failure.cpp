#include "agents/device_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdio>

namespace engram {
namespace {

constexpr int kMemoryAllocation = 2;  // cudaErrorMemoryAllocation

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// "12.50 GiB" of "... Tried to allocate 12.50 GiB. GPU 0 has ..."; empty where LibTorch does not say it.
std::string wanted_memory(const std::string& text) {
  const std::string before = "ried to allocate ";
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const std::size_t end = std::min(text.find(". ", begin), text.find('\n', begin));
  return text.substr(begin + before.size(), end == std::string::npos ? end : end - begin - before.size());
}

std::string out_of_memory(const std::string& text, const Config& config) {
  const ReplayOptions& replay = config.replay;
  const TaskInfo task = config.task.info();
  // Observations, and 8 bytes of action and reward a row.
  const std::int64_t rows = replay.rows(task, config.run.steps);
  const double bytes = static_cast<double>(rows) * static_cast<double>(task.observation.bytes() + 8);
  char size[32];
  std::snprintf(size, sizeof(size), "%.1f GiB", bytes / (1 << 30));
  const std::string wanted = wanted_memory(text);
  return "the GPU is out of memory" + (wanted.empty() ? "" : " (" + wanted + " more were wanted)") +
         ": lower replay.capacity_steps (now " + std::to_string(replay.capacity_steps) +
         ") or replay.minimum_episodes (now " + std::to_string(replay.minimum_episodes) + "), whose " +
         std::to_string(rows) + " rows take " + size + ", replay.batch_episodes (now " +
         std::to_string(replay.batch_episodes) + ") or run.num_envs (now " + std::to_string(config.run.num_envs) + ")";
}

}  // namespace

std::optional<std::string> device_failure(const std::exception& error, const Config& config) {
  std::string text = error.what();
  bool device = false, memory = false;
  if (const auto* own = dynamic_cast<const c10::Error*>(&error)) {
    text = own->what_without_backtrace();
    const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(own);
    // Libraries' failures come as plain errors: "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ...".
    device = accelerator != nullptr || contains(text, "CUDA error") || contains(text, "CUDNN_STATUS");
    memory = dynamic_cast<const c10::OutOfMemoryError*>(own) != nullptr ||
             (accelerator != nullptr && accelerator->get_error_code() == kMemoryAllocation) ||
             (device && contains(text, "ALLOC_FAILED"));
  } else {  // of a kernel's launch: "what was tried: cudaErrorName: what it means"
    device = contains(text, ": cudaError");
    memory = contains(text, ": cudaErrorMemoryAllocation: ");
  }
  if (memory) return out_of_memory(text, config);
  if (device) return "the GPU has failed and can do nothing more for this run: " + text.substr(0, text.find('\n'));
  return std::nullopt;
}

}  // namespace engram
