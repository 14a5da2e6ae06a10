// A learner that is in no program: recurrent double Q-learning under another name, with defaults for other sections and
// with presets, of which those that are in all programs need not have any.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "agents/learn/common_options.h"
#include "agents/learn/dqn/options.h"
#include "agents/learn/registry.h"

namespace engram::testing {

// All of its keys are those of other learners, too: no message about these names it.
struct PresetLearnerOptions {
  static constexpr const char* kName = "with_presets";
  static constexpr const char* kSummary = "a learner of the tests";
  static constexpr const char* kSource = "none: a learner of the tests";

  double gamma = 0.9;
  double learning_rate = 2e-3;
  double weight_decay = 0;

  void list_options(OptionList& list) {
    list_gamma(list, gamma);
    list_adam(list, learning_rate, weight_decay, "all weights");
  }
  void check() const { check_bounds(*this, kLearnerSection); }
  // A memory `none` has no dropout.
  Settings defaults_elsewhere() const {
    return {{"run.num_envs", "8"}, {"network.dropout", "0"}, {"memory.dropout", "0"}};
  }
  // A memory `frame_stack` has no layers.
  static std::vector<LearnerPreset> presets() {
    return {{.name = "small_steps",
             .learner = kName,
             .summary = "small steps of a deep memory",
             .source = "none: a preset of the tests",
             .values = {{"learner.learning_rate", "0.0001"},
                        {"run.num_envs", "16"},
                        {"network.hidden_width", "48"},
                        {"memory.layers", "3"}}},
            {.name = "large_steps",
             .learner = kName,
             .summary = "large steps",
             .source = "none: a preset of the tests",
             .values = {{"learner.learning_rate", "0.1"}}}};
  }
  OptimizerOptions optimizer() const { return {learning_rate, weight_decay, /*clip_gradient_norm=*/0}; }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const { return DqnOptions{}.heads(num_actions); }
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const { return DqnOptions{}.action_rule(device); }
  std::unique_ptr<Algorithm> make(const AgentNetwork& network) const { return DqnOptions{}.make(network); }
};

// To this program's learners, once.
inline void add_preset_learner() {
  static const bool added = [] {
    add_learner(learner_entry<PresetLearnerOptions>());
    return true;
  }();
  static_cast<void>(added);
}

}  // namespace engram::testing
