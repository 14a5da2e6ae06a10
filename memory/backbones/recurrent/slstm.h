// sLSTM, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// First forget gates and recurrent weights R. kPowerLaw: as the authors' code has them unless told otherwise
// (github.com/NX-AI/xlstm, "powerlaw_blockdependent"): over the channels of a head the gate's bias falls from 5 to -7,
// by a power that grows from layer to layer, and R is zero. kLinear: the bias rises from 3 to 6 (that code's
// "small_init"), and R is drawn as the other maps are.
enum class SlstmWeights { kPowerLaw, kLinear };

// The sLSTM of xLSTM (Beck et al. 2024, arXiv:2405.04517, section 2.2), in the block of DeltaNet and HQLT.
struct SlstmOptions : BlockOptions {
  static constexpr const char* kName = "slstm";
  static constexpr const char* kSummary = "an LSTM with exponential gates";
  static constexpr const char* kSource = "Beck et al., xLSTM: extended long short-term memory, 2024, section 2.2";
  int layers = 2;
  int heads = 2;  // the recurrent maps stay within a head
  SlstmWeights first_weights = SlstmWeights::kPowerLaw;

  void list_options(OptionList& list);
  void check() const;
  LayerSpec layer(std::int64_t max_steps) const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
