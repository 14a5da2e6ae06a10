#include "agents/run/machine/device_failure.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <new>

#include "agents/run/config/experience_size.h"
#include "base/error.h"
#include "base/machine/machine_memory.h"

namespace engram {
namespace {

constexpr int kMemoryAllocation = 2;     // cudaErrorMemoryAllocation
constexpr int kDevicesUnavailable = 46;  // cudaErrorDevicesUnavailable

bool contains(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Of "... Tried to allocate 12.50 GiB. GPU 0 has ..." and "... you tried to allocate 4096 bytes. Error code 12 ...";
// empty where LibTorch does not say it.
std::string wanted_memory(const std::string& text) {
  const std::string before = "ried to allocate ";
  const std::size_t begin = text.find(before);
  if (begin == std::string::npos) return "";
  const std::size_t end = std::min(text.find(". ", begin), text.find('\n', begin));
  const std::string wanted =
      text.substr(begin + before.size(), end == std::string::npos ? end : end - begin - before.size());
  char unit[8] = "";
  double bytes = 0;
  return std::sscanf(wanted.c_str(), "%lf %7s", &bytes, unit) == 2 && std::string(unit) == "bytes" ? memory_text(bytes)
                                                                                                   : wanted;
}

// What an exception says of a device.
struct DeviceFailure {
  std::string text;
  bool memory = false, device = false;  // which of them failed; of the host, memory alone
  bool taken = false;                   // the device has not failed: it lets no further program in
};

DeviceFailure look_at(const std::exception& error) {
  DeviceFailure failure{error.what()};
  const std::string& text = failure.text;
  if (dynamic_cast<const std::bad_alloc*>(&error) != nullptr) {
    failure.memory = true;
  } else if (const auto* own = dynamic_cast<const c10::Error*>(&error)) {
    failure.text = own->what_without_backtrace();
    const auto* accelerator = dynamic_cast<const c10::AcceleratorError*>(own);
    // Libraries' failures come as plain errors: "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling ...".
    failure.device = accelerator != nullptr || contains(text, "CUDA error") || contains(text, "CUDA out of memory") ||
                     contains(text, "CUDNN_STATUS");
    failure.memory = dynamic_cast<const c10::OutOfMemoryError*>(own) != nullptr ||
                     (accelerator != nullptr && accelerator->get_error_code() == kMemoryAllocation) ||
                     (failure.device && contains(text, "ALLOC_FAILED")) || contains(text, "CPUAllocator");
    failure.taken = accelerator != nullptr && accelerator->get_error_code() == kDevicesUnavailable;
  } else {  // of a kernel's launch: "what was tried: cudaErrorName: what it means"
    failure.device = contains(text, ": cudaError");
    failure.memory = contains(text, ": cudaErrorMemoryAllocation: ");
    failure.taken = contains(text, ": cudaErrorDevicesUnavailable: ");
  }
  return failure;
}

std::string out_of_memory(const DeviceFailure& failure) {
  const std::string wanted = wanted_memory(failure.text);
  return std::string(failure.device ? "the GPU" : "the machine") + " is out of memory" +
         (wanted.empty() ? "" : " (" + wanted + " more were wanted)");
}

std::string sizes_to_lower(const Config& config) {
  const ExperienceSize size = experience_size(config);
  const std::string kept =
      std::to_string(size.rows) + " rows take " + memory_text(static_cast<double>(size.rows * size.row_bytes));
  const std::string environments = " or run.num_envs (now " + std::to_string(config.run.num_envs) + ")";
  if (const std::optional<IterationOptions> iterations = config.learner.iterations())
    return ": raise learner.minibatches (now " + std::to_string(iterations->minibatches) +
           "), which are computed one at a time, or lower learner.iteration_steps (now " +
           std::to_string(iterations->steps) + "), whose " + kept + "," + environments;
  return ": lower replay.capacity_steps (now " + std::to_string(config.replay.capacity_steps) +
         ") or replay.minimum_episodes (now " + std::to_string(config.replay.minimum_episodes) + "), whose " + kept +
         ", replay.batch_episodes (now " + std::to_string(config.replay.batch_episodes) + ")" + environments;
}

// `sizes_text()`: which sizes to lower, after ": ".
template <class SizesText>
std::optional<RunFailure> lack_of_room(const DeviceFailure& failure, SizesText sizes_text) {
  if (failure.memory) return RunFailure{FailureKind::kOutOfMemory, out_of_memory(failure) + sizes_text()};
  if (failure.taken)
    return RunFailure{FailureKind::kNoRoom,
                      "the GPU lets no further program in: another one has it alone, or the multi-process service has "
                      "as many programs as it takes; run fewer at once"};
  return std::nullopt;
}

std::optional<RunFailure> failure_of_device(const DeviceFailure& failure, const Config& config) {
  if (auto lack = lack_of_room(failure, [&] { return sizes_to_lower(config); })) return lack;
  if (failure.device)
    return RunFailure{FailureKind::kError, "the GPU has failed and can do nothing more for this run: " +
                                               failure.text.substr(0, failure.text.find('\n'))};
  return std::nullopt;
}

}  // namespace

std::optional<std::string> device_failure(const std::exception& error, const Config& config) {
  const auto failure = failure_of_device(look_at(error), config);
  return failure ? std::optional(failure->reason) : std::nullopt;
}

RunFailure failure_of(const std::exception& error, const Config& config) {
  if (dynamic_cast<const UserError*>(&error) != nullptr) return {FailureKind::kRefused, error.what()};
  if (dynamic_cast<const DivergedError*>(&error) != nullptr) return {FailureKind::kDiverged, error.what()};
  const DeviceFailure failure = look_at(error);
  return failure_of_device(failure, config)
      .value_or(RunFailure{FailureKind::kError, failure.text.substr(0, failure.text.find('\n'))});
}

std::optional<RunFailure> lack_of_room(const std::exception& error) {
  return lack_of_room(look_at(error), [] {
    return std::string(": lower the sizes, or the number of episodes or environments, that were asked for");
  });
}

}  // namespace engram
