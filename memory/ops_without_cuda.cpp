#include <stdexcept>

#include "memory/ops_cuda.h"

namespace engram::cuda {

using torch::Tensor;

namespace {

constexpr const char* kReason = "engram is built without CUDA";

}  // namespace

Support supports_delta_rule_step(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return Support::no(kReason);
}
Tensor delta_rule_step(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  throw std::logic_error(kReason);
}

Support supports_attention_step(const Tensor&, const Tensor&, const Tensor&, const KeyValueRing&) {
  return Support::no(kReason);
}
Tensor attention_step(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const KeyValueRing&,
                      const DropoutPlace&) {
  throw std::logic_error(kReason);
}

}  // namespace engram::cuda
