// Options of recurrent double DQN, without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/learner_config.h"

namespace engram {

struct DqnOptions {
  static constexpr const char* kName = "dqn";
  static constexpr const char* kSummary = "recurrent double Q-learning: one critic over whole episodes, epsilon-greedy";
  static constexpr const char* kSource = "Mnih et al. 2015, Hausknecht and Stone 2015, van Hasselt et al. 2016";

  double gamma = 0.99;
  double learning_rate = 3e-4;
  double weight_decay = 0;              // decoupled
  double target_rate = 0.005;           // tau
  double clip_gradient_norm = 0;        // 0: no clipping
  double epsilon_first = 1;             // probability of an action at random, when training begins ...
  double epsilon_last = 0.05;           // ... and from epsilon_steps on, and whenever a trained agent samples
  std::int64_t epsilon_steps = 50'000;  // environment steps

  void list_options(OptionList& list);
  void check() const;
  OptimizerOptions optimizer() const { return {learning_rate, weight_decay, clip_gradient_norm}; }
  std::string surer_by() const { return "lower epsilon (learner.epsilon_last)"; }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const;
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const;
  std::unique_ptr<Algorithm> make(const AgentNetwork& network) const;
};

}  // namespace engram
