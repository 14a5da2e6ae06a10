#include "agents/learn/dqn/options.h"

#include "agents/learn/common_options.h"
#include "base/error.h"

namespace engram {

void DqnOptions::list_options(OptionList& list) {
  list_gamma(list, gamma);
  list_adam(list, learning_rate, weight_decay, "all weights");
  list_target_rate(list, target_rate);
  list.add("epsilon_first", epsilon_first, {0, 1}, "probability of an action at random when training begins");
  list.add("epsilon_last", epsilon_last, {0, 1},
           "the same from learner.epsilon_steps on, and of sampled actions wherever a trained agent plays");
  list.add("epsilon_steps", epsilon_steps, {0, 1'000'000'000'000},
           "environment steps in which it falls from the one to the other, by as much at each");
  list_clipping(list, clip_gradient_norm);
}

void DqnOptions::check() const {
  check_bounds(*this, kLearnerSection);
  if (epsilon_last > epsilon_first)
    throw UserError("learner.epsilon_last " + short_text(epsilon_last) + " is more than learner.epsilon_first " +
                    short_text(epsilon_first));
}

}  // namespace engram
