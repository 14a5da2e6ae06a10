#include "apps/gpu_sharing.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string_view>

namespace engram {
namespace {

constexpr const char* kShare = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE";
constexpr std::array<std::string_view, 3> kProvenShares{"12", "25", "100"};  // hundreds of runs each, on H100s

}  // namespace

std::string sharing_advice(int runs_of_gpu, bool service, const std::optional<std::string>& share) {
  if (service && share && std::ranges::find(kProvenShares, *share) == kProvenShares.end())
    return std::string(kShare) + "=" + *share +
           " is not proven: a third of the runs with 17 ended with values that were not finite, none with 12 or 25.";
  if (runs_of_gpu < 2) return "";
  if (!service)
    return "Runs of one GPU take turns; under NVIDIA's multi-process service (nvidia-cuda-mps-control -d) they run "
           "beside each other.";
  if (runs_of_gpu < kRunsWithShares || share) return "";
  return std::string("Small runs wait less for each other with a quarter of the GPU for each (") + kShare + "=25).";
}

bool has_multi_process_service() {
  const char* const folder = std::getenv("CUDA_MPS_PIPE_DIRECTORY");
  std::error_code error;
  return std::filesystem::exists(
      std::filesystem::path(folder != nullptr && *folder != '\0' ? folder : "/tmp/nvidia-mps") / "control", error);
}

std::optional<std::string> gpu_share() {
  const char* const share = std::getenv(kShare);
  return share == nullptr ? std::nullopt : std::optional<std::string>(share);
}

}  // namespace engram
