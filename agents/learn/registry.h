// The learners that a program knows: what the options of each have to name, and how one is added. Their list is in
// registry.cpp; a program of one's own adds its learners to them by add_learner.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/action_rule.h"
#include "agents/learn/algorithm.h"
#include "agents/learn/learner_config.h"
#include "agents/learn/presets.h"
#include "base/named_registry.h"
#include "storage/settings.h"

namespace engram {

// The options of a learner: a struct with its defaults. It may also have
//   iterations()           IterationOptions: of a learner on policy
//   defaults_elsewhere()   Settings: its defaults for settings of other sections (AnyLearnerOptions)
//   presets()              std::vector<LearnerPreset>: its published settings
//   kLearnsContinuousActions   true: of one that does (agents/act/action_rule.h), whose heads() gets the number of an
//                          action's numbers
//   surer_by()             std::string: what makes its policy surer (AnyLearnerOptions)
template <class Options>
concept LearnerOptions = std::copyable<Options> &&
    requires(Options options, const Options& const_options, OptionList& list, const AgentNetwork& network,
             const c10::Device& device) {
  { Options::kName } -> std::convertible_to<std::string>;
  { Options::kSummary } -> std::convertible_to<std::string>;
  { Options::kSource } -> std::convertible_to<std::string>;
  {options.list_options(list)};
  {const_options.check()};
  { const_options.optimizer() } -> std::same_as<OptimizerOptions>;
  { const_options.heads(std::int64_t{}) } -> std::same_as<std::vector<HeadSpec>>;
  { const_options.action_rule(device) } -> std::same_as<std::shared_ptr<ActionRule>>;
  { const_options.make(network) } -> std::same_as<std::unique_ptr<Algorithm>>;
};

template <LearnerOptions Options>
class LearnerOptionsOf final : public AnyLearnerOptions, public Options {
 public:
  explicit LearnerOptionsOf(Options options = {}) : Options(std::move(options)) {}
  std::unique_ptr<AnyLearnerOptions> copy() const override { return std::make_unique<LearnerOptionsOf>(*this); }
  std::string summary() const override { return Options::kSummary; }
  std::string source() const override { return Options::kSource; }
  void list(OptionList& list) override { Options::list_options(list); }
  void check_all() const override { Options::check(); }
  OptimizerOptions optimizer_options() const override { return Options::optimizer(); }
  std::optional<IterationOptions> iteration_options() const override {
    if constexpr (requires(const Options& options) { options.iterations(); })
      return Options::iterations();
    else
      return {};
  }
  Settings defaults_elsewhere() const override {
    if constexpr (requires(const Options& options) { options.defaults_elsewhere(); })
      return Options::defaults_elsewhere();
    return {};
  }
  std::vector<LearnerPreset> presets() const override {
    if constexpr (requires(const Options& options) { options.presets(); }) return Options::presets();
    return {};
  }
  std::string surer_by() const override {
    if constexpr (requires(const Options& options) { options.surer_by(); }) return Options::surer_by();
    return "";
  }
  bool learns_continuous_actions() const override {
    return requires { requires Options::kLearnsContinuousActions; };
  }
  std::vector<HeadSpec> heads_of(std::int64_t num_actions) const override { return Options::heads(num_actions); }
  std::shared_ptr<ActionRule> make_rule(const c10::Device& device) const override {
    return Options::action_rule(device);
  }
  std::unique_ptr<Algorithm> make_algorithm_of(const AgentNetwork& network) const override {
    return Options::make(network);
  }
};

// A learner with these options.
template <LearnerOptions Options>
LearnerConfig learner_config(Options options) {
  return LearnerConfig(Options::kName, std::make_unique<LearnerOptionsOf<Options>>(std::move(options)));
}

// A learner, as a program knows it.
using LearnerEntry = NamedEntry<AnyLearnerOptions>;

template <LearnerOptions Options>
LearnerEntry learner_entry() {
  return {Options::kName, defaults_of<AnyLearnerOptions, LearnerOptionsOf<Options>>};
}

// Adds a learner to those that this program knows; not while other threads use the list. Throws UserError if there is
// one of its name, or a preset of the name of one of its presets.
void add_learner(LearnerEntry entry);

}  // namespace engram
