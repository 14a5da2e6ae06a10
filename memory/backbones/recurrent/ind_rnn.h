// Independently recurrent neural network, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// IndRNN (Li et al. 2018, arXiv:1803.04831) as POPGym's baselines have it (github.com/proroklab/popgym,
// popgym/baselines/models/indrnn.py): channels that see their own past alone, and relu.
struct IndRnnOptions {
  static constexpr const char* kName = "ind_rnn";
  static constexpr const char* kSummary = "a recurrent weight a channel, relu";
  static constexpr const char* kSource =
      "Li et al., Independently recurrent neural network (IndRNN): building a longer and deeper RNN, 2018; as in "
      "POPGym's baselines (Morad et al. 2023)";
  int width = 100;
  int layers = 2;
  int longest = 1024;  // steps, over which a channel alone grows by no more than a factor of 2

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
