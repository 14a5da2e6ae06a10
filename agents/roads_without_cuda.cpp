// The roads of a build without GPU support.
#include "agents/roads.h"

namespace engram {

Support loss_kernel(std::int64_t, torch::Device) { return Support::no("this build has no GPU support"); }

Road acting_road(const Config&, torch::Device) {
  return {"acting", "LibTorch in float32, in environments on the CPU", "this build has no GPU support"};
}

}  // namespace engram
