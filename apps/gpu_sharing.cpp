#include "apps/gpu_sharing.h"

#include <cstdlib>
#include <filesystem>

namespace engram {
namespace {

constexpr const char* kShare = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";

}  // namespace

std::string sharing_advice(int runs_of_gpu, bool service, bool shares) {
  if (runs_of_gpu < 2) return "";
  if (!service)
    return "Runs of one GPU take turns; under NVIDIA's multi-process service (nvidia-cuda-mps-control -d) they run "
           "beside each other.";
  if (runs_of_gpu < kRunsWithShares || shares) return "";
  return std::string("Small runs wait less for each other with a quarter of the GPU for each (") + kShare + "=25).";
}

bool has_multi_process_service() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr && *folder != '\0' ? folder : "/tmp/nvidia-mps") / "control", error);
}

bool has_gpu_share() { return std::getenv(kShare) != nullptr; }

}  // namespace engram
