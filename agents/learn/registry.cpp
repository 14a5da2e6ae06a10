#include "agents/learn/registry.h"

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/ppo/ppo.h"
#include "agents/learn/sac/sac.h"
#include "base/named_registry.h"
#include "base/type_list.h"

namespace engram {
namespace {

// To add one: write its options and its algorithm in a folder of its own, and add the options here.
using AllLearners = TypeList<SacOptions, PpoOptions, DqnOptions>;

using Learners = NamedRegistry<NamedEntry<AnyLearnerOptions>>;

const Learners& learners() {
  static const Learners all = [] {
    Learners listed("learner");
    AllLearners::for_each([&]<class Options>() {
      listed.add({Options::kName, defaults_of<AnyLearnerOptions, LearnerOptionsOf<Options>>});
    });
    return listed;
  }();
  return all;
}

}  // namespace

std::vector<std::string> learner_names() { return learners().names(); }

LearnerConfig::LearnerConfig(const std::string& name) : NamedConfig(name, learners().defaults(name)) {}

std::unique_ptr<Algorithm> LearnerConfig::make_algorithm(const AgentNetwork& network) const {
  return any().make_algorithm_of(network);
}

}  // namespace engram
