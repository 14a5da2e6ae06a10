// TaskConfig: a task chosen by name, with its options. The list of all tasks is in all_tasks.h; a program of one's own
// adds its tasks to them by add_task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/named_config.h"
#include "base/rng.h"
#include "base/run_fact.h"
#include "envs/task.h"

namespace engram {

class VecEnv;

// The options of a task, whichever it is, and what is made of them. All but list() need options that are valid.
class AnyTaskOptions : public AnyNamedOptions<AnyTaskOptions> {
 public:
  static constexpr const char* kSection = kTaskSection;

  virtual TaskInfo info() const = 0;
  virtual std::vector<RunFact> run_facts(std::uint64_t seed) const = 0;
  // What a vector's elements are; nothing of tasks that do not say.
  virtual std::vector<VectorPart> vector_parts() const = 0;
  // What the colours of its pictures mean; nothing of tasks that do not say.
  virtual std::vector<ColourMeaning> colours() const = 0;
  // An observation of info().observation.bytes().
  virtual ShownObservation show(std::span<const std::byte> observation) const = 0;
  // As make_cpu_vec_env (vec_env.h), which checks what comes in.
  virtual std::unique_ptr<VecEnv> make_cpu_vec_env(std::uint64_t seed, Purpose purpose, int num_envs, int num_threads,
                                                   std::uint32_t first_environment) const = 0;
};

// A task, as a program knows it.
struct TaskEntry {
  std::string name;
  std::unique_ptr<AnyTaskOptions> (*defaults)();
  std::vector<TaskPreset> presets;
};

// Of a task by its rules. Defined in task_entry.h and instantiated once for each task, in its own source file.
template <class Task>
TaskEntry task_entry();

// Adds a task to those that this program knows; not while other threads use the list. Throws UserError if there is one
// of its name, or a preset of the name of one of its presets.
void add_task(TaskEntry entry);

std::vector<std::string> task_names();
const std::vector<TaskPreset>& task_presets();
// Of all tasks, then of all presets.
std::vector<std::string> task_and_preset_names();
// Throws UserError for an unknown name (naming the nearest).
const TaskPreset& task_preset(const std::string& name);

// A task and its options.
class TaskConfig : public NamedConfig<AnyTaskOptions> {
 public:
  // The task with its defaults; also the one of external_task.h. Throws UserError for an unknown name (naming the
  // nearest).
  explicit TaskConfig(const std::string& name);
  // The task of the preset, with the preset's values. Throws UserError for an unknown preset.
  static TaskConfig from_preset(const std::string& preset);
  // Of a task or of a preset, whichever has that name. Throws UserError for a name of neither.
  static TaskConfig named(const std::string& name);

  // What the task looks like with these options.
  TaskInfo info() const;
  // What the seed of a run decides once for all of its episodes, in words; nothing for most tasks.
  std::vector<RunFact> run_facts(std::uint64_t seed) const { return any().run_facts(seed); }
};

}  // namespace engram
