#include "envs/registry.h"

#include "base/error.h"
#include "envs/all_tasks.h"

namespace engram {
namespace {

// "; did you mean 'x'?" where something is near, otherwise the list of what there is.
std::string hint(const std::string& name, const std::vector<std::string>& known) {
  const std::string near = nearest(name, known);
  if (!near.empty()) return "; did you mean '" + near + "'?";
  std::string list;
  for (const std::string& entry : known) list += (list.empty() ? "" : ", ") + entry;
  return "; there are " + list;
}

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

TaskConfig::TaskConfig(const std::string& name) : name_(name) {
  for (const TaskEntry& task : registry().tasks)
    if (task.name == name) options_ = task.defaults();
  if (!options_) throw UserError("unknown task '" + name + "'" + hint(name, task_names()));
}

TaskConfig TaskConfig::from_preset(const std::string& preset) {
  std::vector<std::string> names;
  for (const TaskPreset& known : task_presets()) {
    names.push_back(known.name);
    if (known.name != preset) continue;
    TaskConfig config(known.task);
    OptionList options = config.options();
    for (const auto& [key, value] : known.values) options.set(std::string(kTaskSection) + "." + key, value);
    return config;
  }
  throw UserError("unknown preset '" + preset + "'" + hint(preset, names));
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
