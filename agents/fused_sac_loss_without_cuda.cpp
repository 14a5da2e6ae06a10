// Of a build without GPU support: no heads are supported, and nothing else is called.
#include <stdexcept>

#include "agents/fused_sac_loss.h"

namespace engram {

Support fused_sac_loss_supports(torch::Device, torch::ScalarType, std::int64_t) {
  return Support::no("engram was built without GPU support");
}

SacLoss fused_sac_loss(const AgentNetwork::HeadOutputs&, const EpisodeBatch&, const torch::Tensor&, double,
                       std::int64_t) {
  throw std::logic_error("a fused loss in a build without GPU support");
}

}  // namespace engram
