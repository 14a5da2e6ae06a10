// What a program knows of a task, made of the task's rules. A task's source file ends with the instantiation
//   template TaskEntry task_entry<Task>();
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "base/named_registry.h"
#include "envs/registry.h"
#include "envs/shown_observation.h"
#include "envs/vec/cpu_vec_env.h"

namespace engram {

// Throws UserError if a value is out of the bounds that its option has, or for what Options::check() refuses.
template <class Options>
void check_options(const Options& options) {
  check_bounds(options, kTaskSection);
  if constexpr (requires { options.check(); }) options.check();
}

template <GridTask Task>
class TaskOptionsOf final : public AnyTaskOptions, public Task::Options {
  using Options = typename Task::Options;

 public:
  std::unique_ptr<AnyTaskOptions> copy() const override { return std::make_unique<TaskOptionsOf>(*this); }
  void list(OptionList& list) override { Options::list_options(list); }
  void check_all() const override { check_options<Options>(*this); }
  TaskInfo info() const override { return task_info<Task>(*this); }
  std::vector<RunFact> run_facts(std::uint64_t seed) const override {
    if constexpr (requires(const Options& options) { Task::run_facts(options, seed); })
      return Task::run_facts(*this, seed);
    return {};
  }
  std::vector<VectorPart> vector_parts() const override {
    if constexpr (requires(const typename Task::Params& params) { Task::vector_parts(params); })
      return Task::vector_parts(Task::make_params(*this, 0, Purpose::kTest));
    return {};
  }
  std::vector<ColourMeaning> colours() const override {
    if constexpr (requires(const typename Task::Params& params) { Task::colours(params); })
      return Task::colours(Task::make_params(*this, 0, Purpose::kTest));
    return {};
  }
  ShownObservation show(std::span<const std::byte> observation) const override {
    using Element = typename Task::Element;
    if constexpr (requires(const typename Task::Params& params, const Element* out) { Task::shown(params, out); }) {
      std::vector<Element> elements(observation.size() / sizeof(Element));
      std::memcpy(elements.data(), observation.data(), elements.size() * sizeof(Element));
      return Task::shown(Task::make_params(*this, 0, Purpose::kTest), elements.data());
    } else {
      return show_plainly(info().observation, vector_parts(), observation);
    }
  }
  std::unique_ptr<VecEnv> make_cpu_vec_env(std::uint64_t seed, Purpose purpose, int num_envs, int num_threads,
                                           std::uint32_t first_environment) const override {
    return std::make_unique<CpuVecEnv<Task>>(*this, seed, purpose, num_envs, num_threads, first_environment);
  }
};

template <class Task>
TaskEntry task_entry() {
  TaskEntry entry{Task::kName, defaults_of<AnyTaskOptions, TaskOptionsOf<Task>>, {}};
  if constexpr (requires { Task::presets(); }) entry.presets = Task::presets();
  return entry;
}

}  // namespace engram
