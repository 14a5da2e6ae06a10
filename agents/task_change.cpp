#include "agents/task_change.h"

#include <algorithm>
#include <sstream>

#include "base/error.h"

namespace engram {
namespace {

std::string observation_text(const ObservationSpec& observation) {
  return (observation.type == ElementType::kUint8 ? "uint8 " : "float32 ") + observation.text();
}

void check_same_task(const Config& trained, const std::string& name, const std::string& given) {
  if (name != trained.task.name())
    throw UserError(given + " is of task " + name + ", but the agent was trained on " + trained.task.name());
}

}  // namespace

Config with_task_settings(Config trained, const Settings& settings) {
  std::istringstream ini(trained.to_ini());
  Settings all = read_settings(ini, "the agent's config");
  for (const auto& [key, value] : settings) {
    if (key == "task.name") check_same_task(trained, TaskConfig(value).name(), "task.name = '" + value + "'");
    if (key != "task.preset") continue;
    check_same_task(trained, TaskConfig::from_preset(value).name(), "task.preset = '" + value + "'");
    const auto preset = std::ranges::find(task_presets(), value, &TaskPreset::name);
    for (const auto& [option, set] : preset->values) all.emplace_back(std::string(kTaskSection) + "." + option, set);
  }
  for (const auto& [key, value] : settings)
    if (key != "task.name" && key != "task.preset") all.emplace_back(key, value);
  Config played = Config::from_settings(all);

  const TaskInfo before = trained.task.info(), now = played.task.info();
  std::string given;
  for (const TaskDifference& difference : task_differences(trained, played))
    given += (given.empty() ? "" : ", ") + difference.key + " = " + difference.played;
  if (observation_text(before.observation) != observation_text(now.observation))
    throw UserError("with " + given + " observations are " + observation_text(now.observation) +
                    ", but the agent was trained with " + observation_text(before.observation));
  if (before.num_actions() != now.num_actions())
    throw UserError("with " + given + " there are " + std::to_string(now.num_actions()) +
                    " actions, but the agent was trained with " + std::to_string(before.num_actions()));
  return played;
}

std::vector<TaskDifference> task_differences(Config trained, Config played) {
  std::vector<TaskDifference> differences;
  const OptionList before = trained.task.options(), now = played.task.options();
  for (std::size_t i = 0; i < before.options().size(); ++i) {
    const std::string was = before.options()[i].get(), is = now.options()[i].get();
    if (was != is) differences.push_back({before.options()[i].name, was, is});
  }
  return differences;
}

}  // namespace engram
