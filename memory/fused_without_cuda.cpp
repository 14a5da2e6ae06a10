// The fused branches of a build without GPU support: none is called, because fused::device_support() allows none.
#include <stdexcept>

#include "memory/fused_causal_attention.h"
#include "memory/fused_mixer.h"

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
