// LearnerConfig: a learner chosen by name, with its options. Without LibTorch's headers: registry.h makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/presets.h"
#include "base/named_config.h"
#include "storage/settings.h"

namespace c10 {
struct Device;
}

namespace engram {

class ActionRule;
class AgentNetwork;
class Algorithm;

inline constexpr const char* kLearnerSection = "learner";

// A head of the agent's network: what a learner has computed of the backbone's output, `outputs` numbers.
struct HeadSpec {
  std::string name;  // of the module, which its weights are named by
  std::int64_t outputs = 0;
  double bound = 0;          // of the last layer's first weights, which are uniform
  std::string follows = "";  // a target head, without gradient: the learning head that it follows
};
// Bounds of a policy's logits and of values, with which learning begins near the uniform policy and value 0.
inline constexpr double kPolicyBound = 1e-3, kValueBound = 3e-3;

// What a learner trains with; 0: no decay, no clipping.
struct OptimizerOptions {
  double learning_rate, weight_decay, clip_gradient_norm;
};

// Of a learner on policy: its iterations (experience/iterations.h).
struct IterationOptions {
  std::int64_t steps;  // environment steps of an iteration's episodes, at least
  int passes, minibatches;
};

std::vector<std::string> learner_names();

// The options of a learner, whichever it is, and what is made of them.
class AnyLearnerOptions : public AnyNamedOptions<AnyLearnerOptions> {
 public:
  static constexpr const char* kSection = kLearnerSection;

  virtual std::string summary() const = 0;
  virtual std::string source() const = 0;
  virtual OptimizerOptions optimizer_options() const = 0;
  virtual std::optional<IterationOptions> iteration_options() const = 0;
  // Settings of other sections (section.key) that this learner has other defaults for than those; a config passes over
  // what its task or its memory does not have.
  virtual Settings defaults_elsewhere() const = 0;
  virtual std::vector<LearnerPreset> presets() const = 0;
  // What makes its policy surer of what it does, as advice: "lower ..."; empty where nothing of its options does.
  virtual std::string surer_by() const = 0;
  // Whether it learns continuous actions as well as discrete ones.
  virtual bool learns_continuous_actions() const = 0;
  // In the order in which weights are drawn.
  virtual std::vector<HeadSpec> heads_of(std::int64_t num_actions) const = 0;
  virtual std::shared_ptr<ActionRule> make_rule(const c10::Device& device) const = 0;
  virtual std::unique_ptr<Algorithm> make_algorithm_of(const AgentNetwork& network) const = 0;
};

class LearnerConfig : public NamedConfig<AnyLearnerOptions> {
 public:
  // The learner with its defaults. Throws UserError for an unknown name.
  explicit LearnerConfig(const std::string& name);
  // Of options of that learner (learner_config() in registry.h).
  LearnerConfig(std::string name, std::unique_ptr<AnyLearnerOptions> options)
      : NamedConfig(std::move(name), std::move(options)) {}

  // What it is in a few words, and where it was published.
  std::string summary() const { return any().summary(); }
  std::string source() const { return any().source(); }
  OptimizerOptions optimizer() const { return any().optimizer_options(); }
  // None of a learner off policy, which learns from a replay.
  std::optional<IterationOptions> iterations() const { return any().iteration_options(); }
  // Its defaults for settings of other sections (section.key).
  Settings defaults_elsewhere() const { return any().defaults_elsewhere(); }
  // What makes its policy surer of what it does, as advice; empty where none of its options does.
  std::string surer_by() const { return any().surer_by(); }
  bool learns_continuous_actions() const { return any().learns_continuous_actions(); }
  // The network's heads, in the order in which weights are drawn.
  std::vector<HeadSpec> heads(std::int64_t num_actions) const { return any().heads_of(num_actions); }
  // How actions come from these (agents/act/action_rule.h), and how weights are learnt (algorithm.h).
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const { return any().make_rule(device); }
  std::unique_ptr<Algorithm> make_algorithm(const AgentNetwork& network) const;
};

}  // namespace engram
