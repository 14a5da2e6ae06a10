#include "envs/registry.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "base/named_registry.h"
#include "base/text/suggest.h"
#include "envs/all_tasks.h"
#include "envs/external_task.h"

namespace engram {
namespace {

struct Registry {
  NamedRegistry<TaskEntry> tasks{"task"};
  std::vector<TaskPreset> presets;

  Registry() {
    AllTasks::for_each([this]<class Task>() { add(task_entry<Task>()); });
  }

  void add(TaskEntry entry) {
    const std::vector<TaskPreset> own = entry.presets;
    tasks.add(std::move(entry), presets, own, &TaskPreset::task);
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void add_task(TaskEntry entry) { registry().add(std::move(entry)); }

std::vector<std::string> task_names() { return registry().tasks.names(); }

const std::vector<TaskPreset>& task_presets() { return registry().presets; }

std::vector<std::string> task_and_preset_names() {
  std::vector<std::string> names = task_names();
  for (const TaskPreset& preset : task_presets()) names.push_back(preset.name);
  return names;
}

const TaskPreset& task_preset(const std::string& name) { return find_named(task_presets(), "preset", name); }

TaskConfig::TaskConfig(const std::string& name)
    : NamedConfig(name, name == kExternalTask ? external_task_defaults() : registry().tasks.defaults(name)) {}

TaskConfig TaskConfig::from_preset(const std::string& preset) {
  const TaskPreset& known = task_preset(preset);
  TaskConfig config(known.task);
  OptionList options = config.options();
  for (const auto& [key, value] : known.values) options.set(std::string(kTaskSection) + "." + key, value);
  return config;
}

TaskConfig TaskConfig::named(const std::string& name) {
  const std::vector<std::string> tasks = task_names(), all = task_and_preset_names();
  if (std::ranges::find(all, name) == all.end())
    throw UserError(unknown_name("task or preset", name, all, "engram list"));
  return std::ranges::find(tasks, name) != tasks.end() ? TaskConfig(name) : from_preset(name);
}

TaskInfo TaskConfig::info() const {
  check();
  return any().info();
}

}  // namespace engram
