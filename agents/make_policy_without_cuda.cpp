// In a build without GPU support.
#include <stdexcept>

#include "agents/make_policy.h"

namespace engram {

Support supports_one_kernel(const Config&, torch::Device) { return Support::no("this build has no GPU support"); }

std::string one_kernel_limits() { return "no agent: this build has no GPU support"; }

std::unique_ptr<Policy> make_one_kernel_policy(const Config&, std::shared_ptr<AgentNetwork>, int, MemorySpan) {
  throw std::logic_error("a policy of a GPU in a build without GPU support");
}

void forget_rows_on_gpu(MemoryState&, const torch::Tensor&) {
  throw std::logic_error("memory on a GPU in a build without GPU support");
}

void choose_actions_on_gpu(const ActingRows&, const torch::Tensor&, ActionChoice, Rng*, const torch::Tensor&,
                           const torch::Tensor&) {
  throw std::logic_error("rows on a GPU in a build without GPU support");
}

}  // namespace engram
