#include "nn/device/gpu_share.h"

#include <cstdlib>
#include <fstream>
#include <system_error>

namespace engram {
namespace {

std::filesystem::path service_folder() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  return folder != nullptr && *folder != '\0' ? folder : "/tmp/nvidia-mps";
}

// "driver 580.159.04 is loaded", from "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  Wed ..."; the first
// word with a digit at its front is the version.
std::string driver_text(const std::filesystem::path& file) {
  std::ifstream stream(file);
  for (std::string word; stream >> word;)
    if (word.front() >= '0' && word.front() <= '9') return "driver " + word + " is loaded";
  return "no driver is loaded";
}

}  // namespace

std::optional<std::string> gpu_share() {
  const char* const share = std::getenv(kShareVariable);
  return share == nullptr ? std::nullopt : std::optional<std::string>(share);
}

bool has_multi_process_service() {
  std::error_code error;
  return std::filesystem::exists(service_folder() / "control", error);
}

std::string no_gpu_text(const std::string& cuda_error, const std::filesystem::path& driver_file) {
  const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
  std::string text = "no usable GPU was found (";
  if (visible != nullptr) text += "CUDA_VISIBLE_DEVICES is '" + std::string(visible) + "'; ";
  if (has_multi_process_service())
    text += "a multi-process service answers in " + service_folder().string() + "; ";
  else if (std::getenv("CUDA_MPS_PIPE_DIRECTORY") != nullptr)
    text += "CUDA_MPS_PIPE_DIRECTORY is '" + service_folder().string() + "', where no service's daemon is; ";
  text += driver_text(driver_file);
  return text + (cuda_error.empty() ? "" : "; CUDA says: " + cuda_error) + ")";
}

}  // namespace engram
