#include "agents/learn/registry.h"

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/sac/sac.h"
#include "base/error.h"
#include "base/suggest.h"

namespace engram {
namespace {

template <class... Options>
struct LearnerList {
  // Calls function.operator()<Options>() for each.
  template <class Function>
  static void for_each(Function function) {
    (function.template operator()<Options>(), ...);
  }
};
// To add one: write its options and its algorithm in a folder of its own, and add the options here.
using AllLearners = LearnerList<SacOptions, DqnOptions>;

}  // namespace

std::vector<std::string> learner_names() {
  std::vector<std::string> names;
  AllLearners::for_each([&]<class Options>() { names.emplace_back(Options::kName); });
  return names;
}

LearnerConfig::LearnerConfig(const std::string& name) : name_(name) {
  AllLearners::for_each([&]<class Options>() {
    if (name == Options::kName) options_ = std::make_unique<LearnerOptionsOf<Options>>();
  });
  if (!options_) throw UserError(unknown_name("learner", name, learner_names(), "engram list"));
}

std::unique_ptr<Algorithm> LearnerConfig::make_algorithm(const AgentNetwork& network) const {
  return options_->make_algorithm_of(network);
}

OptionList LearnerConfig::options() {
  OptionList list(kLearnerSection);
  options_->list(list);
  return list;
}

}  // namespace engram
