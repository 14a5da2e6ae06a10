// Options of recurrent proximal policy optimisation, without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/learner_config.h"

namespace engram {

// Over what advantages are brought to mean 0 and deviation 1.
enum class AdvantageScale { kMinibatch, kIteration, kOff };

struct PpoOptions {
  static constexpr const char* kName = "ppo";
  static constexpr const char* kSummary =
      "recurrent proximal policy optimisation: a policy and a value, learnt from what the policy has just played";
  static constexpr const char* kSource = "Schulman et al. 2017; recurrent, over whole episodes: Morad et al. 2023";
  static constexpr bool kLearnsContinuousActions = true;

  double gamma = 0.99;
  double gae_lambda = 0.95;
  double clip = 0.2;             // epsilon
  double value_clip = 0;         // 0: none
  double value_error_bound = 0;  // of the squared error; 0: none
  double value_weight = 0.5;
  double entropy_weight = 0.01;
  AdvantageScale advantage_scale = AdvantageScale::kMinibatch;
  double kl_weight = 0;  // of the penalty; the first one where kl_goal is not 0
  double kl_goal = 0;    // that the penalty's weight aims at; 0: the weight stays
  double target_kl = 0;  // beyond 1.5 of which an iteration learns no more; 0: never
  double learning_rate = 3e-4;
  bool anneal = false;      // the rate falls to 0 in the course of the run
  double weight_decay = 0;  // decoupled
  double clip_gradient_norm = 0.5;
  std::int64_t iteration_steps = 16'384;
  int epochs = 4;
  int minibatches = 8;

  void list_options(OptionList& list);
  void check() const;
  OptimizerOptions optimizer() const { return {learning_rate, weight_decay, clip_gradient_norm}; }
  IterationOptions iterations() const { return {iteration_steps, epochs, minibatches}; }
  // Many environments, nothing at random; no dropout, and no rows drawn anew in SHM, with which the network would be
  // another one at each step.
  Settings defaults_elsewhere() const;
  std::vector<LearnerPreset> presets() const;
  std::string surer_by() const { return entropy_weight > 0 ? "lower the entropy weight (learner.entropy_weight)" : ""; }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const;
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const;
  std::unique_ptr<Algorithm> make(const AgentNetwork& network) const;
};

}  // namespace engram
