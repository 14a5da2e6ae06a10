#include "apps/cli/gpu_sharing.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "nn/device/gpu_share.h"

namespace engram {
namespace {

constexpr std::array<std::string_view, 3> kProvenShares{"12", "25", "100"};  // hundreds of runs each, on H100s

}  // namespace

std::string sharing_advice(int runs_of_gpu, bool service, const std::optional<std::string>& share) {
  if (service && share && std::ranges::find(kProvenShares, *share) == kProvenShares.end())
    return std::string(kShareVariable) + "=" + *share +
           " is not proven, as 12 and 25 are: with some shares the GPU's library gets bfloat16 products wrong.";
  if (runs_of_gpu < 2) return "";
  if (!service)
    return "Runs of one GPU take turns; under NVIDIA's multi-process service (nvidia-cuda-mps-control -d) they run "
           "beside each other.";
  if (runs_of_gpu < kRunsWithShares || share) return "";
  return std::string("Small runs wait less for each other with a quarter of the GPU for each (") + kShareVariable +
         "=25).";
}

}  // namespace engram
