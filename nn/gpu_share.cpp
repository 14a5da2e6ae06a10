#include "nn/gpu_share.h"

#include <cstdlib>
#include <filesystem>

namespace engram {

std::optional<std::string> gpu_share() {
  const char* const share = std::getenv(kShareVariable);
  return share == nullptr ? std::nullopt : std::optional<std::string>(share);
}

bool has_multi_process_service() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr && *folder != '\0' ? folder : "/tmp/nvidia-mps") / "control", error);
}

}  // namespace engram
