#include "agents/run/options.h"

#include <algorithm>
#include <sstream>
#include <string>

#include "base/error.h"

namespace engram {

void NetworkOptions::list_options(OptionList& list) {
  list.add("previous_action_width", previous_action_width, {0, 4096},
           "width of the embedding of the previous action; 0: the agent does not see it");
  list.add("previous_reward_width", previous_reward_width, {0, 4096},
           "width of the embedding of the previous reward; 0: the agent does not see it");
  list.add("token_width", token_width, {1, 4096},
           "width of a token's embedding, of tasks whose observations have tokens");
  list.add("hidden_width", hidden_width, {1, 65536}, "width of the two hidden layers of actor and critics");
  list.add("dropout", dropout, {0, 0.99}, "probability of dropping an encoded input while training");
}

void AdapterOptions::list_options(OptionList& list) {
  list.add("rank", rank, {0, 1 << 14},
           "of the adapters that are trained in place of the weights, with --adapt; 0: all weights are trained");
  list.add("alpha", alpha, {1e-6, 1e6}, "scale of the adapters: the product of their factors counts alpha / rank");
  list.add("fast_weights", fast_weights,
           "whether maps of fast weights, which are linear attention, have adapters beside those of softmax attention");
}

void SacOptions::list_options(OptionList& list) {
  list.add("gamma", gamma, {0, 1}, "discount of the reward one step later");
  list.add("learning_rate", learning_rate, {0, 1}, "of Adam, for all weights and a learnt temperature");
  list.add("weight_decay", weight_decay, {0, 10},
           "decoupled decay: an update takes learning_rate * weight_decay of every weight");
  list.add("target_rate", target_rate, {0, 1},
           "tau: how far the target critics move towards the critics in one update");
  list.add("temperature", temperature, {{Temperature::kFixed, "fixed"}, {Temperature::kLearnt, "learnt"}},
           "whether alpha, the weight of the policy's entropy, is fixed or learnt");
  list.add("alpha", alpha, {1e-8, 1e3}, "the fixed temperature, or the first value of a learnt one");
  list.add("alpha_min", alpha_min, {1e-8, 1e3}, "least value of a learnt temperature");
  list.add("alpha_max", alpha_max, {1e-8, 1e3}, "greatest value of a learnt temperature");
  list.add("target_entropy_fraction", target_entropy_fraction, {0, 1},
           "entropy that a learnt temperature aims at, as a fraction of log(number of actions)");
  list.add("clip_gradient_norm", clip_gradient_norm, {0, 1e9}, "greatest norm of the whole gradient; 0: no clipping");
}

void SacOptions::check() const {
  check_bounds(*this, "learner");
  const auto text = [](double value) { return (std::ostringstream() << value).str(); };
  if (temperature == Temperature::kLearnt && !(alpha_min <= alpha && alpha <= alpha_max))
    throw UserError("learner.alpha " + text(alpha) + " is not between learner.alpha_min " + text(alpha_min) +
                    " and learner.alpha_max " + text(alpha_max));
}

void ReplayOptions::list_options(OptionList& list) {
  list.add("capacity_steps", capacity_steps, {1, 1'000'000'000'000},
           "environment steps kept; the oldest episodes go first");
  list.add("minimum_episodes", minimum_episodes, {1, 1'000'000'000}, "episodes kept even beyond capacity_steps");
  list.add("batch_episodes", batch_episodes, {1, 1'000'000}, "whole episodes in the batch of one update");
}

// With the last observation of every episode, as long as they have eight steps or more, and one episode more: rows of
// an episode are not divided between the end and the beginning.
std::int64_t ReplayOptions::rows(const TaskInfo& task, std::int64_t most_steps) const {
  const std::int64_t longest = task.max_episode_steps;
  const std::int64_t steps = std::min(std::max(capacity_steps, minimum_episodes * longest), most_steps);
  return steps + std::max(steps / longest, steps / 8) + 2 * (longest + 1);
}

}  // namespace engram
