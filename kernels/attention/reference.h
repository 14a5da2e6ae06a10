// Attention in double precision on the CPU, straight from the formula in attention.h: what the kernels are tested
// against. Every tensor is contiguous. A sequence may follow a past that stands in a ring, so that a step is a sequence
// of one step.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/attention/attention.h"

namespace engram {

struct AttentionReferenceInput {
  AttentionShape shape;
  double scale;
  int window;
  int rotary_width;
  std::vector<double> q_BTHW, k_BTHW, v_BTHW;
  std::vector<std::int64_t> length_B;
  DropoutKey dropout;  // seed and tick in host memory; with a ring as for a step, whose slots are the channels
  int slots = 0;
  std::vector<double> past_key_BSHW, past_value_BSHW;  // empty without a past
  std::vector<std::int64_t> position_B;                // empty: all zero
  bool chunked = false;                                // of a sequence without a past
};

struct AttentionReferenceOutput {
  std::vector<double> output_BTHW;
  std::vector<double> ring_key_BSHW, ring_value_BSHW;  // the final ring, where slots > 0
};

struct AttentionReferenceGradient {
  std::vector<double> q_BTHW, k_BTHW, v_BTHW;
};

AttentionReferenceOutput attention_reference(const AttentionReferenceInput& input);

// The gradient of sum(output * d_output); the past counts as constant.
AttentionReferenceGradient attention_reference_backward(const AttentionReferenceInput& input,
                                                        const std::vector<double>& d_output_BTHW);

}  // namespace engram
