// A step of the delayed fast weights in double precision on the CPU, straight from the formulas in delayed_memory.h:
// what the kernel is tested against. Every tensor is contiguous.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/fast_weights/delayed_memory/delayed_memory.h"

namespace engram {

struct DelayedMemoryReference {
  Delay delay;
  int rows, heads, width, slots, rotary_width;
  double scale;
  std::vector<double> q_NHW, beta_NH;
  std::vector<std::int64_t> position_N;
  std::vector<double> key_ring_NSHW, value_ring_NSHW;
  std::vector<double> beta_ring_NSH;  // of a chunk
  std::vector<double> fast_NHWW;
};

// Brings beta_ring and fast to what they are after the step; returns the output [N, H, W].
std::vector<double> delayed_memory_reference(DelayedMemoryReference& step);

}  // namespace engram
