// LearnerConfig: a learner chosen by name, with its options. Without LibTorch's headers: registry.h makes it.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"

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

// What a learner trains with; 0: no decay, no clipping.
struct OptimizerOptions {
  double learning_rate, weight_decay, clip_gradient_norm;
};

std::vector<std::string> learner_names();

// The options of a learner, whichever it is, and what is made of them.
class AnyLearnerOptions {
 public:
  virtual ~AnyLearnerOptions() = default;
  virtual std::unique_ptr<AnyLearnerOptions> copy() const = 0;
  virtual std::string summary() const = 0;
  virtual std::string source() const = 0;
  // They stay bound to this object.
  virtual void list(OptionList& list) = 0;
  virtual void check_all() const = 0;
  virtual OptimizerOptions optimizer_options() const = 0;
  // In the order in which weights are drawn.
  virtual std::vector<HeadSpec> heads_of(std::int64_t num_actions) const = 0;
  virtual std::shared_ptr<ActionRule> make_rule(const c10::Device& device) const = 0;
  virtual std::unique_ptr<Algorithm> make_algorithm_of(const AgentNetwork& network) const = 0;
};

class LearnerConfig {
 public:
  // The learner with its defaults. Throws UserError for an unknown name.
  explicit LearnerConfig(const std::string& name);
  // Of options of that learner (learner_config() in registry.h).
  LearnerConfig(std::string name, std::unique_ptr<AnyLearnerOptions> options)
      : name_(std::move(name)), options_(std::move(options)) {}

  LearnerConfig(const LearnerConfig& other) : name_(other.name_), options_(other.options_->copy()) {}
  LearnerConfig(LearnerConfig&&) = default;
  LearnerConfig& operator=(LearnerConfig other) {
    name_ = std::move(other.name_);
    options_ = std::move(other.options_);
    return *this;
  }

  const std::string& name() const { return name_; }
  // What it is in a few words, and where it was published.
  std::string summary() const { return options_->summary(); }
  std::string source() const { return options_->source(); }
  // Options under the section "learner", bound to this object.
  OptionList options();
  std::vector<OptionValue> values() const { return LearnerConfig(*this).options().values(); }
  // Throws UserError if a value is out of bounds or values contradict each other.
  void check() const { options_->check_all(); }
  OptimizerOptions optimizer() const { return options_->optimizer_options(); }
  // The network's heads, in the order in which weights are drawn.
  std::vector<HeadSpec> heads(std::int64_t num_actions) const { return options_->heads_of(num_actions); }
  // How actions come from these (agents/act/action_rule.h), and how weights are learnt (algorithm.h).
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const { return options_->make_rule(device); }
  std::unique_ptr<Algorithm> make_algorithm(const AgentNetwork& network) const;

 private:
  std::string name_;
  std::unique_ptr<AnyLearnerOptions> options_;
};

}  // namespace engram
