#include "python/binding/environments.h"

#include <pybind11/numpy.h>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "base/machine/processors.h"
#include "envs/vec/vec_env.h"
#include "video/board_layout.h"

namespace engram::python {

namespace py = pybind11;

TaskConfig task_of(const std::string& name, const TaskValues& values) {
  TaskConfig task = TaskConfig::named(name);
  OptionList options = task.options();
  for (const auto& [key, value] : values) options.set(std::string(kTaskSection) + "." + key, value);
  task.check();
  return task;
}

namespace {

const char* kind_name(PartKind kind) {
  switch (kind) {
    case PartKind::kImage:
      return "image";
    case PartKind::kVector:
      return "vector";
    case PartKind::kTokens:
      return "tokens";
  }
  throw std::logic_error("kind_name: a kind without a name");
}

const char* type_name(ElementType type) { return type == ElementType::kUint8 ? "uint8" : "float32"; }

// Environments on the CPU (VecEnv). What it gives as views is rewritten by steps and resets, and lives as long as they.
class CpuEnvironments {
 public:
  // threads: at most so many; fewer where more would not be worth their hand-over. None: of all processors.
  CpuEnvironments(const std::string& name, const TaskValues& options, std::uint64_t run_seed, int num_envs,
                  std::optional<int> threads)
      : environments_(make_cpu_vec_env(task_of(name, options), run_seed, kPurpose, num_envs,
                                       threads ? *threads : worthwhile_threads(num_envs, available_processors()))) {}

  const TaskInfo& info() const { return environments_->info(); }

  // Views: [N, elements], and bool [N].
  static py::array observations(const py::object& self) {
    const VecEnv& environments = *self.cast<const CpuEnvironments&>().environments_;
    const ObservationSpec& spec = environments.info().observation;
    return py::array(py::dtype(type_name(spec.type)), {py::ssize_t{environments.size()}, py::ssize_t{spec.elements()}},
                     environments.observation_N().data(), self);
  }
  static py::array successes(const py::object& self) {
    const VecEnv& environments = *self.cast<const CpuEnvironments&>().environments_;
    return py::array(py::dtype::of<bool>(), {py::ssize_t{environments.size()}}, environments.success_N().data(), self);
  }

  void move_streams(std::uint32_t first_environment) {
    const py::gil_scoped_release release;
    environments_->move_streams(first_environment);
  }
  void reset_finished() {
    const py::gil_scoped_release release;
    environments_->reset_finished();
  }
  void reset_chosen(const py::array_t<bool, py::array::c_style>& chosen_N) {
    const std::span chosen(reinterpret_cast<const std::uint8_t*>(chosen_N.data()),
                           static_cast<std::size_t>(chosen_N.size()));
    const py::gil_scoped_release release;
    environments_->reset_chosen(chosen);
  }

  // Rewards, and whether the step terminated or truncated an episode.
  py::tuple step(const py::array& action_N) { return advance(action_N, &VecEnv::step); }
  py::tuple step_or_reset(const py::array& action_N) { return advance(action_N, &VecEnv::step_or_reset); }

  // Of each environment its board, uint8 height x width x 3.
  py::list boards() const {
    py::list pictures;
    Canvas board;
    for (int i = 0; i < environments_->size(); ++i) {
      environments_->draw(i, board);
      const RgbImage image = board_picture(board);
      pictures.append(py::array_t<std::uint8_t>({image.height, image.width, 3}, image.pixels.data()));
    }
    return pictures;
  }

 private:
  using Advance = void (VecEnv::*)(std::span<const std::int32_t>);

  py::tuple advance(const py::array& action_N, Advance advance) {
    const std::span<const std::int32_t> actions =
        info().action.continuous() ? number_rows(action_N) : int32_actions(action_N);
    const py::ssize_t size = environments_->size();
    py::array_t<double> rewards(size);
    py::array_t<bool> terminations(size), truncations(size);
    double* const reward = rewards.mutable_data();
    bool* const terminated = terminations.mutable_data();
    bool* const truncated = truncations.mutable_data();
    {
      const py::gil_scoped_release release;
      (environments_.get()->*advance)(actions);
      std::ranges::copy(environments_->reward_N(), reward);
      std::ranges::transform(environments_->end_N(), terminated, [](End end) { return end == End::kTerminated; });
      std::ranges::transform(environments_->end_N(), truncated, [](End end) { return end == End::kTruncated; });
    }
    return py::make_tuple(rewards, terminations, truncations);
  }

  // As they are, or narrowed into actions_.
  std::span<const std::int32_t> int32_actions(const py::array& action_N) {
    const py::ssize_t size = environments_->size();
    if (action_N.ndim() != 1 || action_N.shape(0) != size)
      throw std::invalid_argument("actions have the shape " + py::str(action_N.attr("shape")).cast<std::string>() +
                                  "; it has to be (" + std::to_string(size) + ",), one for each environment");
    if (py::isinstance<py::array_t<std::int32_t, py::array::c_style>>(action_N))
      return {static_cast<const std::int32_t*>(action_N.data()), static_cast<std::size_t>(size)};
    const char kind = action_N.dtype().kind();
    if (kind != 'i' && kind != 'u')
      throw std::invalid_argument("actions are " + py::str(action_N.dtype()).cast<std::string>() +
                                  "; they have to be integers");
    const py::array_t<std::int64_t, py::array::c_style | py::array::forcecast> wide(action_N);
    actions_.resize(static_cast<std::size_t>(size));
    for (py::ssize_t i = 0; i < size; ++i) {
      const std::int64_t action = wide.data()[i];
      // No task has as many actions as this: it stands for what does not fit, and is refused.
      constexpr std::int64_t kMost = std::numeric_limits<std::int32_t>::max();
      actions_[static_cast<std::size_t>(i)] = static_cast<std::int32_t>(std::clamp(action, -kMost, kMost));
    }
    return actions_;
  }

  // Of a continuous action, as float32 rows in actions_.
  std::span<const std::int32_t> number_rows(const py::array& action_N) {
    const py::ssize_t size = environments_->size(), numbers = info().action.words();
    if (action_N.ndim() != 2 || action_N.shape(0) != size || action_N.shape(1) != numbers)
      throw std::invalid_argument("actions have the shape " + py::str(action_N.attr("shape")).cast<std::string>() +
                                  "; it has to be (" + std::to_string(size) + ", " + std::to_string(numbers) +
                                  "), the numbers of an action for each environment");
    if (const char kind = action_N.dtype().kind(); kind != 'f' && kind != 'i' && kind != 'u')
      throw std::invalid_argument("actions are " + py::str(action_N.dtype()).cast<std::string>() +
                                  "; they have to be real numbers");
    const py::array_t<float, py::array::c_style | py::array::forcecast> single(action_N);
    actions_.resize(static_cast<std::size_t>(size * numbers));
    std::transform(single.data(), single.data() + single.size(), actions_.begin(), word_of);
    return actions_;
  }

  std::unique_ptr<VecEnv> environments_;
  std::vector<std::int32_t> actions_;
};

}  // namespace

void bind_environments(py::module_& module) {
  module.def("task_names", &task_names, "Names of all tasks.");
  module.def("task_and_preset_names", &task_and_preset_names,
             "Names of all tasks, then of all presets, which are published sizes of tasks.");
  module.def(
      "device_of", [](const std::string& text) { return parse_device(text).str(); }, py::arg("device"),
      "The device that \"cpu\", \"cuda\", \"cuda:N\" or \"auto\" means here.");

  py::class_<ObservationPart>(module, "ObservationPart", "A part of a task's observation.")
      .def_readonly("name", &ObservationPart::name)
      .def_property_readonly("kind", [](const ObservationPart& part) { return kind_name(part.kind); })
      .def_property_readonly("shape", [](const ObservationPart& part) { return py::tuple(py::cast(part.shape)); })
      .def_readonly("values", &ObservationPart::values);
  py::class_<TaskInfo>(module, "TaskInfo", "What there is to know about a task with its options set.")
      .def_readonly("name", &TaskInfo::name)
      .def_readonly("description", &TaskInfo::description)
      .def_readonly("memory_demand", &TaskInfo::memory_demand)
      .def_readonly("source", &TaskInfo::source)
      .def_property_readonly("action_names", [](const TaskInfo& info) { return info.action.names; })
      .def_property_readonly("action_numbers",
                             [](const TaskInfo& info) {
                               std::vector<std::tuple<std::string, float, float>> numbers;
                               for (const auto& [name, least, most] : info.action.numbers)
                                 numbers.emplace_back(name, least, most);
                               return numbers;
                             })
      .def_property_readonly("observation_dtype", [](const TaskInfo& info) { return type_name(info.observation.type); })
      .def_property_readonly("observation_parts", [](const TaskInfo& info) { return info.observation.parts; })
      .def_readonly("max_episode_steps", &TaskInfo::max_episode_steps)
      .def_readonly("chance_success", &TaskInfo::chance_success);

  py::class_<CpuEnvironments>(module, "CpuEnvironments")
      .def(py::init<const std::string&, const TaskValues&, std::uint64_t, int, std::optional<int>>(), py::arg("name"),
           py::arg("options"), py::arg("run_seed"), py::arg("num_envs"), py::arg("threads"))
      .def_property_readonly("info", &CpuEnvironments::info)
      .def_property_readonly("observations", &CpuEnvironments::observations)
      .def_property_readonly("successes", &CpuEnvironments::successes)
      .def("move_streams", &CpuEnvironments::move_streams, py::arg("first_environment"))
      .def("reset_finished", &CpuEnvironments::reset_finished)
      .def("reset_chosen", &CpuEnvironments::reset_chosen, py::arg("chosen"))
      .def("step", &CpuEnvironments::step, py::arg("actions"))
      .def("step_or_reset", &CpuEnvironments::step_or_reset, py::arg("actions"))
      .def("boards", &CpuEnvironments::boards);
  bind_cuda_environments(module);
}

}  // namespace engram::python
