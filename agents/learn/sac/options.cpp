#include "agents/learn/sac/options.h"

#include "agents/learn/common_options.h"
#include "base/error.h"

namespace engram {

void SacOptions::list_options(OptionList& list) {
  list_gamma(list, gamma);
  list_adam(list, learning_rate, weight_decay, "all weights and a learnt temperature");
  list_target_rate(list, target_rate);
  list.add("temperature", temperature, {{Temperature::kFixed, "fixed"}, {Temperature::kLearnt, "learnt"}},
           "whether alpha, the weight of the policy's entropy, is fixed or learnt");
  list.add("alpha", alpha, {1e-8, 1e3}, "the fixed temperature, or the first value of a learnt one");
  list.add("alpha_min", alpha_min, {1e-8, 1e3}, "least value of a learnt temperature");
  list.add("alpha_max", alpha_max, {1e-8, 1e3}, "greatest value of a learnt temperature");
  list.add("target_entropy_fraction", target_entropy_fraction, {0, 1},
           "entropy that a learnt temperature aims at, as a fraction of log(number of actions)");
  list_clipping(list, clip_gradient_norm);
}

void SacOptions::check() const {
  check_bounds(*this, kLearnerSection);
  if (temperature == Temperature::kLearnt && !(alpha_min <= alpha && alpha <= alpha_max))
    throw UserError("learner.alpha " + short_text(alpha) + " is not between learner.alpha_min " +
                    short_text(alpha_min) + " and learner.alpha_max " + short_text(alpha_max));
}

}  // namespace engram
