#include "envs/registry.h"

#include <utility>

#include "base/error.h"
#include "base/suggest.h"
#include "envs/all_tasks.h"

namespace engram {
namespace {

constexpr const char* kShownBy = "engram list";

struct Registry {
  std::vector<TaskEntry> tasks;
  std::vector<TaskPreset> presets;

  Registry() {
    AllTasks::for_each([this]<class Task>() { add(task_entry<Task>()); });
  }

  void add(TaskEntry entry) {
    for (const TaskEntry& task : tasks)
      if (task.name == entry.name) throw UserError("there is a task '" + entry.name + "' already");
    for (const TaskPreset& preset : entry.presets)
      for (const TaskPreset& known : presets)
        if (known.name == preset.name)
          throw UserError("task '" + entry.name + "' has a preset '" + preset.name + "'; task '" + known.task +
                          "' has it already");
    presets.insert(presets.end(), entry.presets.begin(), entry.presets.end());
    tasks.push_back(std::move(entry));
  }
};

Registry& registry() {
  static Registry all;
  return all;
}

}  // namespace

void add_task(TaskEntry entry) { registry().add(std::move(entry)); }

std::vector<std::string> task_names() {
  std::vector<std::string> names;
  for (const TaskEntry& task : registry().tasks) names.push_back(task.name);
  return names;
}

const std::vector<TaskPreset>& task_presets() { return registry().presets; }

const TaskPreset& task_preset(const std::string& name) {
  std::vector<std::string> names;
  for (const TaskPreset& preset : task_presets()) {
    if (preset.name == name) return preset;
    names.push_back(preset.name);
  }
  throw UserError(unknown_name("preset", name, names, kShownBy));
}

TaskConfig::TaskConfig(const std::string& name) : name_(name) {
  for (const TaskEntry& task : registry().tasks)
    if (task.name == name) options_ = task.defaults();
  if (!options_) throw UserError(unknown_name("task", name, task_names(), kShownBy));
}

TaskConfig TaskConfig::from_preset(const std::string& preset) {
  const TaskPreset& known = task_preset(preset);
  TaskConfig config(known.task);
  OptionList options = config.options();
  for (const auto& [key, value] : known.values) options.set(std::string(kTaskSection) + "." + key, value);
  return config;
}

OptionList TaskConfig::options() {
  OptionList list(kTaskSection);
  options_->list(list);
  return list;
}

TaskInfo TaskConfig::info() const {
  check();
  return options_->info();
}

}  // namespace engram
