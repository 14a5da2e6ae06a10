// What stands for the GPU's parts in a build without GPU support: nothing is supported there, and what is called only
// where something is throws.
#include "base/without_cuda.h"

#include <cstdint>
#include <memory>

#include "memory/fused/attention.h"
#include "memory/fused/fast_weights.h"
#include "memory/ops/hadamard_memory_cuda.h"
#include "memory/ops/ops_cuda.h"
#include "memory/ops/recurrences/gated_rnn_cuda.h"
#include "memory/ops/recurrences/linear_recurrence_cuda.h"
#include "memory/ops/recurrences/min_gru_gates_cuda.h"
#include "memory/ops/recurrences/relu_recurrence_cuda.h"
#include "memory/ops/recurrences/rg_lru_gates_cuda.h"
#include "memory/ops/recurrences/slstm_cuda.h"
#include "memory/ops/short_convolution_cuda.h"
#include "memory/ops/vector_decay_cuda.h"

namespace engram::cuda {

using torch::Tensor;

Tensor rows_with_code(const Tensor&, const Tensor&) { not_built("a position code"); }
std::unique_ptr<Branch> attention_branch(const AttentionWeights&, std::int64_t, const FreshRows&,
                                         const WindowSettings&) {
  not_built("attention");
}
std::unique_ptr<ForwardBranch> attention_step_branch(const AttentionWeights&, std::int64_t, const Tensor&,
                                                     const KeyValueRing&, const WindowSettings&) {
  not_built("a step of attention");
}
std::unique_ptr<Branch> fast_weights_branch(const FastWeightsWeights&, const FastWeightsSettings&, const FreshRows&) {
  not_built("a mixer of fast weights");
}
Support supports_fast_weights_step(const FastWeightsOptions&, torch::ScalarType, torch::Device) { return no_support(); }
std::unique_ptr<ForwardBranch> fast_weights_step_branch(const FastWeightsWeights&, const FastWeightsSettings&,
                                                        const FastWeightsStepState&) {
  not_built("a step of a mixer");
}

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

Support supports_gated_rnn(GatedCell, std::int64_t, torch::ScalarType, torch::Device) { return no_support(); }
Tensor gated_rnn(const GatedRnnWeights&, const Tensor&, const Tensor&) { not_built("gated cells"); }
Support supports_hadamard_memory(const HadamardMemoryVectors&, const Tensor&) { return no_support(); }
HadamardMemoryResult hadamard_memory(const HadamardMemoryVectors&, const Tensor&, const Tensor&, double) {
  not_built("Hadamard memory");
}
Support supports_linear_recurrence(const Tensor&, const Tensor&, const Tensor&) { return no_support(); }
Tensor linear_recurrence(const Tensor&, const Tensor&, const Tensor&) { not_built("the linear recurrence"); }
Support supports_paired_linear_recurrence(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  return no_support();
}
PairedStates paired_linear_recurrence(const Tensor&, const Tensor&, const Tensor&, const Tensor&) {
  not_built("the linear recurrence");
}
Support supports_min_gru_gates(const Tensor&, const Tensor&, const Tensor&) { return no_support(); }
RecurrenceUpdate min_gru_gates(const Tensor&, const Tensor&, const Tensor&) { not_built("minGRU's gates"); }
Support supports_rg_lru_gates(const RgLruInput&) { return no_support(); }
RecurrenceUpdate rg_lru_gates(const RgLruInput&) { not_built("RG-LRU's gates"); }
Support supports_relu_recurrence(const Tensor&, const Tensor&, const Tensor&) { return no_support(); }
Tensor relu_recurrence(const Tensor&, const Tensor&, const Tensor&) { not_built("the relu recurrence"); }
Support supports_slstm(const Tensor&, const Tensor&) { return no_support(); }
Tensor slstm(const Tensor&, const Tensor&, const Tensor&) { not_built("sLSTM"); }
Support supports_short_convolution(const ShortConvolutionTensors&) { return no_support(); }
ShortConvolution::Output short_convolution(const ShortConvolutionTensors&) { not_built("a short convolution"); }
Support supports_vector_decay(const VectorDecayInput&) { return no_support(); }
Tensor vector_decay(const VectorDecayInput&, const Tensor&) { not_built("a decay for each channel"); }

}  // namespace engram::cuda
