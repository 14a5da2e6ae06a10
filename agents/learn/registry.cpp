#include "agents/learn/registry.h"

#include <utility>

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/ppo/ppo.h"
#include "agents/learn/sac/sac.h"
#include "base/type_list.h"

namespace engram {
namespace {

// To add one: write its options and its algorithm in a folder of its own, and add the options here.
using AllLearners = TypeList<SacOptions, PpoOptions, DqnOptions>;

struct Registry {
  NamedRegistry<LearnerEntry> learners{"learner"};
  std::vector<LearnerPreset> presets;

  Registry() {
    AllLearners::for_each([this]<class Options>() { add(learner_entry<Options>()); });
  }

  void add(LearnerEntry entry) {
    const std::vector<LearnerPreset> own = entry.defaults()->presets();
    learners.add(std::move(entry), presets, own, &LearnerPreset::learner);
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void add_learner(LearnerEntry entry) { registry().add(std::move(entry)); }

std::vector<std::string> learner_names() { return registry().learners.names(); }

const std::vector<LearnerPreset>& learner_presets() { return registry().presets; }

const LearnerPreset& learner_preset(const std::string& name) {
  return find_named(learner_presets(), "learner preset", name);
}

LearnerConfig::LearnerConfig(const std::string& name) : NamedConfig(name, registry().learners.defaults(name)) {}

std::unique_ptr<Algorithm> LearnerConfig::make_algorithm(const AgentNetwork& network) const {
  return any().make_algorithm_of(network);
}

}  // namespace engram
