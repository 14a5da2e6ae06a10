// TaskConfig: a task chosen by name, with its options. The list of all tasks is in all_tasks.h; a program of one's own
// adds its tasks to them by add_task.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/options.h"
#include "base/rng.h"
#include "base/run_fact.h"
#include "envs/task.h"

namespace engram {

class VecEnv;

// The options of a task, whichever it is, and what is made of them. All but list() need options that are valid.
class AnyTaskOptions {
 public:
  virtual ~AnyTaskOptions() = default;
  virtual std::unique_ptr<AnyTaskOptions> copy() const = 0;
  // They stay bound to this object.
  virtual void list(OptionList& list) = 0;
  // Throws UserError if a value is out of bounds or values contradict each other.
  virtual void check_all() const = 0;
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
// Throws UserError for an unknown name (naming the nearest).
const TaskPreset& task_preset(const std::string& name);

// A task and its options.
class TaskConfig {
 public:
  // The task with its defaults. Throws UserError for an unknown name (naming the nearest).
  explicit TaskConfig(const std::string& name);
  // The task of the preset, with the preset's values. Throws UserError for an unknown preset.
  static TaskConfig from_preset(const std::string& preset);

  TaskConfig(const TaskConfig& other) : name_(other.name_), options_(other.options_->copy()) {}
  TaskConfig(TaskConfig&&) = default;
  TaskConfig& operator=(TaskConfig other) {
    name_ = std::move(other.name_);
    options_ = std::move(other.options_);
    return *this;
  }

  const std::string& name() const { return name_; }
  // Options under the section "task", bound to this object.
  OptionList options();
  std::vector<OptionValue> values() const { return TaskConfig(*this).options().values(); }
  // Throws UserError if a value is out of bounds or values contradict each other.
  void check() const { options_->check_all(); }
  // What the task looks like with these options.
  TaskInfo info() const;
  // What the seed of a run decides once for all of its episodes, in words; nothing for most tasks.
  std::vector<RunFact> run_facts(std::uint64_t seed) const { return options_->run_facts(seed); }

  const AnyTaskOptions& task_options() const { return *options_; }
  // As these, where they are these; otherwise null.
  template <class Options>
  const Options* as() const {
    return dynamic_cast<const Options*>(options_.get());
  }

 private:
  std::string name_;
  std::unique_ptr<AnyTaskOptions> options_;
};

}  // namespace engram
