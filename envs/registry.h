// The list of all tasks, and TaskConfig: a task chosen by name, with its options.
// To add a task: include its header and add it to AllTasks.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "base/options.h"
#include "envs/task.h"
#include "envs/tasks/autoencode.h"
#include "envs/tasks/count_recall.h"
#include "envs/tasks/door_key.h"
#include "envs/tasks/key_to_door.h"
#include "envs/tasks/memory_chain.h"
#include "envs/tasks/minigrid_memory.h"
#include "envs/tasks/red_blue_doors.h"
#include "envs/tasks/repeat_first.h"
#include "envs/tasks/repeat_previous.h"
#include "envs/tasks/tmaze.h"
#include "envs/tasks/umbrella_chain.h"
#include "envs/tasks/visual_match.h"

namespace engram {

template <class... Tasks>
struct TaskList {
  using OptionsVariant = std::variant<typename Tasks::Options...>;

  // Calls function.operator()<Task>() for each task.
  template <class Function>
  static void for_each(Function function) {
    (function.template operator()<Tasks>(), ...);
  }
};
using AllTasks = TaskList<VisualMatch, KeyToDoor, TMaze, RepeatFirst, RepeatPrevious, Autoencode, CountRecall,
                          MemoryChain, UmbrellaChain, MiniGridMemory, RedBlueDoors, DoorKey>;

// A published size of a task, by name.
struct TaskPreset {
  std::string name;
  std::string task;
  std::vector<std::pair<std::string, std::string>> values;  // option without section -> value
  std::string source;                                       // where it was published
};

std::vector<std::string> task_names();
const std::vector<TaskPreset>& task_presets();

// A task and its options. `options` holds Task::Options of the task called `name`.
class TaskConfig {
 public:
  // The task with its defaults. Throws UserError for an unknown name (naming the nearest).
  explicit TaskConfig(const std::string& name);
  // The task of the preset, with the preset's values. Throws UserError for an unknown preset.
  static TaskConfig from_preset(const std::string& preset);

  const std::string& name() const { return name_; }
  // Options under the section "task", bound to this object.
  OptionList options();
  // Throws UserError if a value is out of bounds or values contradict each other.
  void check() const;
  // What the task looks like with these options.
  TaskInfo info() const;
  // What the seed of a run decides once for all of its episodes, in words; nothing for most tasks.
  std::vector<RunFact> run_facts(std::uint64_t seed) const;

  const AllTasks::OptionsVariant& variant() const { return options_; }

 private:
  std::string name_;
  AllTasks::OptionsVariant options_;
};

}  // namespace engram
