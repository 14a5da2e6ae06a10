// Which of a run's weights a command plays: the option that such commands have in common.
#pragma once

#include "base/options.h"
#include "storage/run/run_directory.h"

namespace engram {

inline void list_weights(OptionList& list, WhichWeights& weights) {
  list.add("weights", weights, {{WhichWeights::kBest, "best"}, {WhichWeights::kLast, "last"}},
           "of the best evaluation during training, or of the end");
}

inline const char* name_of(WhichWeights weights) { return weights == WhichWeights::kBest ? "best" : "last"; }

}  // namespace engram
