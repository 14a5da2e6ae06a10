#include "agents/learn/ppo/options.h"

#include "agents/learn/common_options.h"
#include "base/error.h"

namespace engram {

void PpoOptions::list_options(OptionList& list) {
  list_gamma(list, gamma);
  list.add("gae_lambda", gae_lambda, {0, 1},
           "how far an advantage looks beyond the critic: 0 one step, 1 to the end (Schulman et al. 2016)");
  list.add("clip", clip, {1e-6, 1e6},
           "how far the ratio of new to old probability may leave 1 and still be rewarded (Schulman et al. 2017, "
           "equation 7)");
  list.add("value_clip", value_clip, {0, 1e9},
           "how far a value may leave that of the iteration's beginning (as OpenAI's baselines have it); 0: as far as "
           "it likes");
  list.add("value_error_bound", value_error_bound, {0, 1e9},
           "a value's squared error beyond this has no gradient (RLlib's vf_clip_param); 0: no bound");
  list.add("value_weight", value_weight, {0, 1e6}, "of the critic's mean squared error in the loss");
  list.add("entropy_weight", entropy_weight, {0, 1e6}, "of the policy's entropy in the loss");
  list.add("advantage_scale", advantage_scale,
           {{AdvantageScale::kMinibatch, "minibatch"},
            {AdvantageScale::kIteration, "iteration"},
            {AdvantageScale::kOff, "off"}},
           "over what advantages are brought to mean 0 and deviation 1 (iteration: RLlib)");
  list.add("kl_weight", kl_weight, {0, 1e6},
           "of KL(old policy, new policy) in the loss; with learner.kl_goal the first weight");
  list.add("kl_goal", kl_goal, {0, 1e6},
           "the weight grows by half after an iteration whose divergence is over twice this, and halves below half of "
           "it (Schulman et al. 2017, section 4; RLlib's kl_target); 0: it stays");
  list.add(
      "target_kl", target_kl, {0, 1e6},
      "an iteration learns no more once a minibatch's divergence is over 1.5 times this (Stable-Baselines3); 0: it "
      "always learns to its end");
  list_adam(list, learning_rate, weight_decay, "all weights");
  list.add("anneal", anneal, "whether the learning rate falls evenly to 0 in the course of the run");
  list_clipping(list, clip_gradient_norm);
  list.add("iteration_steps", iteration_steps, {1, 1'000'000'000},
           "environment steps, in whole episodes, that an iteration learns from, at least");
  list.add("epochs", epochs, {1, 10'000}, "passes of an iteration over its episodes");
  list.add("minibatches", minibatches, {1, 1'000'000}, "gradient updates of a pass, each of other episodes");
}

void PpoOptions::check() const {
  check_bounds(*this, kLearnerSection);
  if (kl_goal > 0 && kl_weight == 0)
    throw UserError("learner.kl_goal " + short_text(kl_goal) +
                    " needs a learner.kl_weight to begin with; 0 stays 0 whatever it is multiplied with");
}

}  // namespace engram
