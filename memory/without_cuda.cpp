// What stands for the GPU's parts in a build without GPU support: nothing is supported there, and what is called only
// where something is throws.
#include <stdexcept>

#include "memory/fused_causal_attention.h"
#include "memory/fused_mixer.h"
#include "memory/ops_cuda.h"

namespace engram::fused {
namespace {

[[noreturn]] void not_built(const char* what) {
  throw std::logic_error(std::string(what) + " on a GPU in a build without GPU support");
}

}  // namespace

using torch::Tensor;

Tensor rows_with_code(const Tensor&, const Tensor&) { not_built("a position code"); }
std::unique_ptr<Branch> causal_attention_branch(const CausalAttentionWeights&, const CausalAttentionSettings&) {
  not_built("attention");
}
std::unique_ptr<Branch> mixer_branch(const MixerWeights&, const MixerSettings&) { not_built("a mixer"); }

}  // namespace engram::fused

namespace engram::cuda {
namespace {

constexpr const char* kReason = "this build has no GPU support";

}  // namespace

using torch::Tensor;

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
                      const DropoutKey&) {
  throw std::logic_error(kReason);
}

}  // namespace engram::cuda
