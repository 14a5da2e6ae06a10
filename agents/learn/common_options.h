// Options that learners share: one name, bounds and text for each.
#pragma once

#include <sstream>
#include <string>

#include "base/options.h"

namespace engram {

inline void list_gamma(OptionList& list, double& gamma) {
  list.add("gamma", gamma, {0, 1}, "discount of the reward one step later");
}

// `learns`: what a learner learns with it.
inline void list_adam(OptionList& list, double& learning_rate, double& weight_decay, const std::string& learns) {
  list.add("learning_rate", learning_rate, {0, 1}, "of Adam, for " + learns);
  list.add("weight_decay", weight_decay, {0, 10},
           "decoupled decay: an update takes learning_rate * weight_decay of every weight");
}

inline void list_target_rate(OptionList& list, double& target_rate) {
  list.add("target_rate", target_rate, {0, 1},
           "tau: how far the target critics move towards the critics in one update");
}

inline void list_clipping(OptionList& list, double& clip_gradient_norm) {
  list.add("clip_gradient_norm", clip_gradient_norm, {0, 1e9}, "greatest norm of the whole gradient; 0: no clipping");
}

// A number in a message.
inline std::string short_text(double value) { return (std::ostringstream() << value).str(); }

}  // namespace engram
