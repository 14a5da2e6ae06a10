// Which kernels walk the chunks of a sequence one after the other: the chain of the chunked delta rule. The two write
// and read the same saved buffer and scratch, so that a forward pass by one serves a backward pass by the other.
#pragma once

#include "base/support.h"
#include "kernels/fast_weights/delta_rule/delta_rule.h"

namespace engram {

// Into how many segments a sequence is cut that are walked beside each other (README.md, "In segments"): what the shape
// says, at most one a chunk, or where it says 0 more than one only where the pairs of row and head are few and long.
// Asks no device.
int delta_rule_segments(const DeltaRuleShape& shape, Dtype dtype);

enum class DeltaRuleChain {
  kSlices,     // warps that share slices of a head's values: every input and device
  kWarpgroup,  // a warpgroup for each 64 values, all products wgmma: what supports_delta_rule_warpgroup says
};

// Whether kWarpgroup takes the input: the delta rule in bfloat16, with heads of at most 64 only of one segment, and with
// rows in pieces of 16 bytes, that is a width and a row stride that are multiples of 8 and tensors aligned to 16 bytes.
// Asks no device; _support also wants the current device to be one of wgmma.
Support supports_delta_rule_warpgroup_sizes(const DeltaRuleInput& input);
Support supports_delta_rule_warpgroup(const DeltaRuleInput& input);
// The same with the output that the forward pass writes, or its gradient, which the backward pass reads.
Support supports_delta_rule_warpgroup(const DeltaRuleInput& input, const void* output_BTHD);

// Whether kWarpgroup is the faster where it is supported (README.md, "Wide heads"): heads of at most 64 always, wider
// ones where there are at least 64 chains, pairs of row, head and segment. Asks no device.
bool delta_rule_warpgroup_pays(const DeltaRuleInput& input);
// kWarpgroup where it is supported and pays.
DeltaRuleChain chosen_delta_rule_chain(const DeltaRuleInput& input, const void* output_BTHD);

// delta_rule_forward and delta_rule_backward by the given kernels; the two names without `_by` take the chosen ones.
// Throws std::runtime_error with the reason where it is not.
void delta_rule_forward_by(DeltaRuleChain chain, const DeltaRuleInput& input, void* output_BTHD, void* saved,
                           cudaStream_t stream);
void delta_rule_backward_by(DeltaRuleChain chain, const DeltaRuleInput& input, const void* saved,
                            const void* output_gradient_BTHD, const DeltaRuleInputGradient& input_gradient,
                            void* scratch, cudaStream_t stream);

}  // namespace engram
