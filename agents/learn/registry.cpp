#include "agents/learn/registry.h"

#include <utility>

#include "agents/learn/dqn/dqn.h"
#include "agents/learn/ppo/ppo.h"
#include "agents/learn/sac/sac.h"
#include "base/error.h"
#include "base/suggest.h"
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
    learners.check_new(entry.name);
    const std::vector<LearnerPreset> own = entry.defaults()->presets();
    for (const LearnerPreset& preset : own)
      for (const LearnerPreset& known : presets)
        if (known.name == preset.name)
          throw UserError("learner '" + entry.name + "' has a preset '" + preset.name + "'; learner '" + known.learner +
                          "' has it already");
    presets.insert(presets.end(), own.begin(), own.end());
    learners.add(std::move(entry));
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
  std::vector<std::string> names;
  for (const LearnerPreset& preset : learner_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw UserError(unknown_name("learner preset", name, names, "engram list"));
}

LearnerConfig::LearnerConfig(const std::string& name) : NamedConfig(name, registry().learners.defaults(name)) {}

std::unique_ptr<Algorithm> LearnerConfig::make_algorithm(const AgentNetwork& network) const {
  return any().make_algorithm_of(network);
}

}  // namespace engram
