#include "agents/run/trained/task_change.h"

#include <sstream>
#include <string>
#include <utility>

#include "base/error.h"

namespace engram {
namespace {

std::string observation_text(const ObservationSpec& observation) {
  return (observation.type == ElementType::kUint8 ? "uint8 " : "float32 ") + observation.text();
}

void check_same_task(const Config& trained, const std::string& name, const std::string& key, const std::string& value) {
  if (name != trained.task.name())
    throw SettingError(
        key, key + " = '" + value + "' is of task " + name + ", but the agent was trained on " + trained.task.name());
}

void check_same_task(const Config& trained, const Settings& settings) {
  for (const auto& [key, value] : settings) {
    if (key == "task.name") check_same_task(trained, TaskConfig(value).name(), key, value);
    if (key == "task.preset") check_same_task(trained, task_preset(value).task, key, value);
  }
}

}  // namespace

Config with_task_settings(Config trained, const Settings& settings) {
  return with_task_layers(std::move(trained), {{.settings = settings}});
}

Config with_task_layers(Config trained, const SettingsLayers& layers) {
  naming_line(layers, [&] {
    for (const SettingsLayer& layer : layers) check_same_task(trained, layer.settings);
  });
  std::istringstream ini(trained.to_ini());
  SettingsLayers all = {{.settings = read_settings(ini, "the agent's config").settings}};
  all.insert(all.end(), layers.begin(), layers.end());
  Config played = Config::from_layers(all);

  const TaskInfo before = trained.task.info(), now = played.task.info();
  std::string given;
  for (const OptionDifference& changed : differences(trained.task.values(), played.task.values()))
    given += (given.empty() ? "" : ", ") + changed.name + " = " + changed.now;
  if (observation_text(before.observation) != observation_text(now.observation))
    throw UserError("with " + given + " observations are " + observation_text(now.observation) +
                    ", but the agent was trained with " + observation_text(before.observation));
  if (before.num_actions() != now.num_actions())  // whether they are continuous no option changes
    throw UserError("with " + given + " there are " + std::to_string(now.num_actions()) +
                    " actions, but the agent was trained with " + std::to_string(before.num_actions()));
  return played;
}

}  // namespace engram
