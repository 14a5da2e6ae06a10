// A learner that acts alone: a policy, and a critic of states, V(h), where those of the program may have one of
// actions.
#pragma once

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "agents/act/action_rule.h"
#include "agents/act/network.h"
#include "agents/learn/registry.h"

namespace engram {

struct StateValueOptions {
  static constexpr const char* kName = "state_values";
  static constexpr const char* kSummary = "acts alone";
  static constexpr const char* kSource = "";

  class Rule final : public ActionRule {
   public:
    torch::Tensor logits(AgentNetwork& network, const torch::Tensor& features_ND) const override {
      return network.head("actor", features_ND);
    }
    torch::Tensor values(AgentNetwork& network, const torch::Tensor& features_ND) const override {
      return network.head("critic", features_ND);
    }
    bool values_are_of_actions() const override { return false; }
  };

  void list_options(OptionList&) {}
  void check() const {}
  OptimizerOptions optimizer() const { return {}; }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const {
    return {{"actor", num_actions, 0.1}, {"critic", 1, 1}};
  }
  std::shared_ptr<ActionRule> action_rule(const c10::Device&) const { return std::make_shared<Rule>(); }
  std::unique_ptr<Algorithm> make(const AgentNetwork&) const { throw std::logic_error("it does not learn"); }
};

}  // namespace engram
