// The learners that a program knows: what the options of each have to name. Their list is in registry.cpp.
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

namespace engram {

// The options of a learner: a struct with its defaults. One that learns on policy has iterations() as well.
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

}  // namespace engram
