// Fast and Forgetful Memory, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// Fast and Forgetful Memory (Morad et al. 2023, arXiv:2310.04128): traces of the input that decay and turn at learnt
// rates, each seen in a few contexts of time.
struct FfmOptions {
  static constexpr const char* kName = "ffm";
  static constexpr const char* kSummary = "fast and forgetful memory: traces";
  static constexpr const char* kSource = "Morad et al., Reinforcement learning with fast and forgetful memory, 2023";
  int width = 100;
  int traces = 32;        // m in the paper
  int contexts = 4;       // c in the paper
  double longest = 1024;  // steps: the longest period at first, after which the slowest trace has 1% left

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
