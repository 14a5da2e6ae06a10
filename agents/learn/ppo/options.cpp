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

Settings PpoOptions::defaults_elsewhere() const {
  return {{"run.num_envs", "64"},
          {"run.random_episodes", "0"},
          {"network.dropout", "0"},
          {"memory.dropout", "0"},
          {"memory.rows", "by_step"}};
}

// Both learn from 65,536 steps at a time, in minibatches of 8,192, thirty times, with heads of 128-128.
std::vector<LearnerPreset> PpoOptions::presets() const {
  Settings shared = {{"run.steps", "15000000"},
                     {"run.num_envs", "64"},
                     {"network.hidden_width", "128"},
                     {"memory.width", "256"},
                     {"evaluation.every_steps", "655360"},
                     {"learner.gamma", "0.99"},
                     {"learner.gae_lambda", "1"},
                     {"learner.entropy_weight", "0"},
                     {"learner.learning_rate", "5e-5"},
                     {"learner.iteration_steps", "65536"},
                     {"learner.epochs", "30"},
                     {"learner.minibatches", "8"}};
  Settings popgym = shared, popjaxrl = shared;
  // What popgym/baselines/ppo.py leaves out is RLlib's default; its squared error has no factor 1/2.
  popgym.insert(popgym.end(), {{"network.encoder", "joint"},
                               {"network.previous_action_width", "1"},
                               {"network.first_step_mark", "true"},
                               {"learner.clip", "0.3"},
                               {"learner.value_weight", "1"},
                               {"learner.value_error_bound", "10"},
                               {"learner.advantage_scale", "iteration"},
                               {"learner.kl_weight", "0.2"},
                               {"learner.kl_goal", "0.01"},
                               {"learner.clip_gradient_norm", "0"}});
  // Its loss has half the squared error, with weight 1.
  popjaxrl.insert(popjaxrl.end(), {{"learner.clip", "0.2"},
                                   {"learner.value_clip", "0.2"},
                                   {"learner.value_weight", "0.5"},
                                   {"learner.clip_gradient_norm", "0.5"}});
  return {{"popgym", kName, "POPGym's baselines", "Morad et al. 2023, popgym/baselines/ppo.py on RLlib", popgym},
          {"popjaxrl", kName, "popjaxrl's agents", "Lu et al. 2023, github.com/luchris429/popjaxrl", popjaxrl}};
}

void PpoOptions::check() const {
  check_bounds(*this, kLearnerSection);
  if (kl_goal > 0 && kl_weight == 0)
    throw UserError("learner.kl_goal " + short_text(kl_goal) +
                    " needs a learner.kl_weight to begin with; 0 stays 0 whatever it is multiplied with");
}

}  // namespace engram
