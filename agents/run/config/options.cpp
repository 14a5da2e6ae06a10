#include "agents/run/config/options.h"

#include <algorithm>
#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace engram {

void NetworkOptions::list_options(OptionList& list) {
  list.add("encoder", encoder, {{Encoder::kParts, "parts"}, {Encoder::kJoint, "joint"}},
           "parts: an observation by layers for its kind, with embeddings of the previous action and reward beside it; "
           "joint: all that is seen as one vector, linear, layer norm, linear, leaky relu (POPGym's baselines)");
  list.add(
      "previous_action_width", previous_action_width, {0, 4096},
      "width of the embedding of the previous action; 0: the agent does not see it; 1 with network.encoder = joint, "
      "which takes it as a one-hot vector");
  list.add(
      "previous_reward_width", previous_reward_width, {0, 4096},
      "width of the embedding of the previous reward; 0: the agent does not see it; 1 with network.encoder = joint, "
      "which takes it as it is");
  list.add("first_step_mark", first_step_mark, "whether the agent sees that a step is the first one of an episode");
  list.add("token_width", token_width, {1, 4096},
           "width of a token's embedding, of tasks whose observations have tokens");
  list.add("hidden_width", hidden_width, {1, 65536},
           "width of the two hidden layers of actor and critics, and of the joint encoder's");
  list.add("dropout", dropout, {0, 0.99}, "probability of dropping an encoded input while training");
}

void NetworkOptions::check() const {
  if (encoder != Encoder::kJoint) return;
  for (const auto& [name, width] :
       {std::pair("previous_action_width", previous_action_width), {"previous_reward_width", previous_reward_width}})
    if (width > 1)
      throw UserError("network." + std::string(name) + " " + std::to_string(width) +
                      " is of an embedding, which network.encoder joint does not have; it takes 1 (seen) or 0");
}

void AdapterOptions::list_options(OptionList& list) {
  list.add("rank", rank, {0, 1 << 14},
           "of the adapters that are trained in place of the weights, with --adapt; 0: all weights are trained");
  list.add("alpha", alpha, {1e-6, 1e6}, "scale of the adapters: the product of their factors counts alpha / rank");
  list.add("fast_weights", fast_weights,
           "whether maps of fast weights, which are linear attention, have adapters beside those of softmax attention");
  list.add("convolutions", convolutions,
           "whether the weights of short convolutions are trained beside the adapters (HyLoRA), or not (LoRA)");
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
