// What stands for the GPU's parts in a build without GPU support: nothing is supported there, and what is called only
// where something is throws.
#include "base/without_cuda.h"

#include <cstdint>
#include <memory>

#include "memory/fused/attention.h"
#include "memory/fused/fast_weights.h"
#include "memory/ops/hadamard_memory_cuda.h"
#include "memory/ops/linear_recurrence_cuda.h"
#include "memory/ops/ops_cuda.h"
#include "memory/ops/slstm_cuda.h"
#include "memory/ops/vector_decay_cuda.h"

namespace engram::fused {

using torch::Tensor;

Tensor rows_with_code(const Tensor&, const Tensor&) { not_built("a position code"); }
std::unique_ptr<Branch> attention_branch(const AttentionWeights&, std::int64_t, const FreshRows&,
                                         const WindowSettings&) {
  not_built("attention");
}
std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights&, const FastWeightsSettings&, const FreshRows&) {
  not_built("a mixer of fast weights");
}
Support delayed_step_support(std::int64_t, std::int64_t, torch::ScalarType, torch::Device) { return no_support(); }
std::unique_ptr<ForwardBranch> delayed_step_branch(const FastWeightsWeights&, const FastWeightsSettings&,
                                                   const DelayedStepState&) {
  not_built("a step of a mixer");
}

}  // namespace engram::fused

namespace engram::cuda {

using torch::Tensor;

Support supports_chunked_fast_weights(torch::Device, torch::ScalarType) { return no_support(); }
Tensor chunked_fast_weights(const ChunkedFastWeights&) { not_built("fast weights"); }
Support supports_fast_weight_step(const Tensor&, const Tensor&) { return no_support(); }
Tensor fast_weight_step(bool, const Tensor&, const Tensor&, const Tensor&, const Tensor&, const Tensor&,
                        const Tensor&) {
  not_built("a step of fast weights");
}
Support supports_attention_step(const Tensor&, const Tensor&, const Tensor&, const KeyValueRing&) {
  return no_support();
}
Tensor attention_step(const Tensor&, const Tensor&, const Tensor&, const Tensor&, const KeyValueRing&,
                      const DropoutKey&) {
  not_built("a step of attention");
}

}  // namespace engram::cuda

namespace engram {

using torch::Tensor;

Support supports_hadamard_memory_on_gpu(const HadamardMemoryVectors&, const Tensor&) { return no_support(); }
HadamardMemoryResult hadamard_memory_on_gpu(const HadamardMemoryVectors&, const Tensor&, const Tensor&, double) {
  not_built("Hadamard memory");
}
Support supports_linear_recurrence_on_gpu(const Tensor&, const Tensor&, const Tensor&) { return no_support(); }
Tensor linear_recurrence_on_gpu(const Tensor&, const Tensor&, const Tensor&) { not_built("the linear recurrence"); }
Support supports_slstm_on_gpu(const Tensor&, const Tensor&) { return no_support(); }
Tensor slstm_on_gpu(const Tensor&, const Tensor&, const Tensor&) { not_built("sLSTM"); }
Support supports_vector_decay_on_gpu(const VectorDecayInput&) { return no_support(); }
Tensor vector_decay_on_gpu(const VectorDecayInput&, const Tensor&) { not_built("a decay for each channel"); }

}  // namespace engram
