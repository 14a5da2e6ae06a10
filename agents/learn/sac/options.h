// Options of discrete soft actor-critic, without LibTorch.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "agents/learn/learner_config.h"

namespace engram {

enum class Temperature { kFixed, kLearnt };

struct SacOptions {
  static constexpr const char* kName = "sac";
  static constexpr const char* kSummary = "soft actor-critic: a policy and two critics, kept from deciding too early";
  static constexpr const char* kSource = "Haarnoja et al. 2018; discrete actions: Christodoulou 2019";

  double gamma = 0.99;
  double learning_rate = 3e-4;
  double weight_decay = 0;     // decoupled
  double target_rate = 0.005;  // tau
  Temperature temperature = Temperature::kFixed;
  double alpha = 0.1;       // fixed temperature, or the first value of a learnt one
  double alpha_min = 1e-4;  // bounds of a learnt temperature
  double alpha_max = 1.0;
  double target_entropy_fraction = 0.5;  // learnt: target entropy as a fraction of log |A|
  double clip_gradient_norm = 0;         // 0: no clipping

  void list_options(OptionList& list);
  void check() const;
  OptimizerOptions optimizer() const { return {learning_rate, weight_decay, clip_gradient_norm}; }
  std::string surer_by() const {
    return std::string("lower the temperature (") +
           (temperature == Temperature::kLearnt ? "learner.target_entropy_fraction)" : "learner.alpha)");
  }
  std::vector<HeadSpec> heads(std::int64_t num_actions) const;
  std::shared_ptr<ActionRule> action_rule(const c10::Device& device) const;
  std::unique_ptr<Algorithm> make(const AgentNetwork& network) const;
};

}  // namespace engram
