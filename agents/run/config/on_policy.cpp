#include "agents/run/config/on_policy.h"

#include <string>
#include <vector>

#include "base/error.h"

namespace engram {
namespace {

[[noreturn]] void refuse(const Config& config, const OptionValue& option, const std::string& why) {
  throw UserError(option.name + " " + option.text + " is not for learner.name " + config.learner.name() + ", " + why);
}

}  // namespace

void check_on_policy(const Config& config) {
  if (!config.learner.iterations()) return;
  for (const OptionValue& option : config.values())
    if ((option.name == "network.dropout" && config.network.dropout > 0) ||
        (option.name == "memory.dropout" && config.memory.dropout() > 0))
      refuse(config, option,
             "which compares what one network thought of an action with what it thinks now: with dropout every step is "
             "another network's; it takes 0");
    else if (option.name == "memory.rows" && option.text == "drawn")
      refuse(config, option,
             "which learns by the rows of the memory that it has acted with; it takes by_step or first");
    else if (option.name == "run.memoryless_collection" && config.run.memoryless_collection)
      refuse(config, option, "which learns with the memory that it has acted with");
    else if (option.name == "run.random_episodes" && config.run.random_episodes > 0)
      refuse(config, option, "which learns from what its own policy plays; it takes 0");
  Config defaults = config;
  defaults.run = {};
  defaults.replay = {};
  for (const OptionDifference& changed : differences(defaults.values(), config.values()))
    if (changed.name == "run.updates_per_step" || changed.name.starts_with("replay."))
      throw UserError(changed.name + " " + changed.now + " is not for learner.name " + config.learner.name() +
                      ", which has no replay: what it learns from is learner.iteration_steps, learner.epochs and "
                      "learner.minibatches");
}

}  // namespace engram
