#include "agents/run/training/training.h"

#include <ATen/Parallel.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/utils/pybind.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/play/foreign_envs.h"
#include "agents/run/machine/device_failure.h"
#include "agents/run/trained/trained_agent.h"
#include "base/error.h"
#include "envs/external_task.h"
#include "experiments/plan/experiment.h"
#include "nn/device/device.h"
#include "python/binding/binding.h"
#include "storage/settings.h"

namespace engram::python {
namespace {

namespace py = pybind11;

py::dict scalars_dict(const std::vector<Scalar>& scalars) {
  py::dict dict;
  for (const auto& [name, value] : scalars) dict[py::str(name)] = value;
  return dict;
}

py::object evaluation_dict(const std::optional<EvaluationSummary>& evaluation) {
  if (!evaluation) return py::none();
  py::dict dict;
  dict["steps"] = evaluation->environment_steps;
  dict["updates"] = evaluation->updates;
  dict["episodes"] = evaluation->episodes;
  dict["success"] = evaluation->greedy.success;
  dict["mean_return"] = evaluation->greedy.mean_return;
  const auto& sampled = evaluation->sampled;
  dict["sampled_success"] = sampled ? std::optional(sampled->success) : std::nullopt;
  dict["sampled_mean_return"] = sampled ? std::optional(sampled->mean_return) : std::nullopt;
  return dict;
}

py::object final_dict(const std::optional<FinalEvaluation>& evaluation) {
  if (!evaluation) return py::none();
  py::dict dict;
  dict["steps"] = evaluation->weights.environment_steps;
  dict["updates"] = evaluation->weights.updates;
  dict["episodes"] = evaluation->episodes;
  dict["success"] = evaluation->greedy.success.estimate;
  dict["success_interval"] = std::pair(evaluation->greedy.success.low, evaluation->greedy.success.high);
  dict["mean_return"] = evaluation->greedy.mean_return;
  const auto& sampled = evaluation->sampled;
  dict["sampled_success"] = sampled ? std::optional(sampled->success.estimate) : std::nullopt;
  dict["sampled_mean_return"] = sampled ? std::optional(sampled->mean_return) : std::nullopt;
  return dict;
}

const char* stop_name(StopReason reason) {
  switch (reason) {
    case StopReason::kSteps:
      return "steps";
    case StopReason::kTime:
      return "time";
    case StopReason::kSolved:
      return "solved";
    case StopReason::kRequest:
      return "request";
    case StopReason::kNone:
      break;
  }
  return "";
}

py::dict status_dict(const TrainStatus& status) {
  py::dict dict;
  dict["steps"] = status.steps;
  dict["total_steps"] = status.total_steps;
  dict["updates"] = status.updates;
  dict["episodes"] = status.episodes;
  dict["seconds"] = status.seconds;
  dict["seconds_left"] = status.seconds_left;
  dict["done"] = status.done;
  dict["steps_per_second"] = status.steps_per_second;
  dict["updates_per_second"] = status.updates_per_second;
  dict["recent_return"] = status.recent_return;
  dict["recent_success"] = status.recent_success;
  dict["skipped_updates"] = status.skipped_updates;
  dict["losses"] = scalars_dict(status.losses);
  dict["last_evaluation"] = evaluation_dict(status.last_evaluation);
  dict["best_evaluation"] = evaluation_dict(status.best_evaluation);
  dict["final_evaluation"] = final_dict(status.final_evaluation);
  dict["stopped"] = stop_name(status.stopped);
  return dict;
}

// Tells a function of Python, and lets Python's signal handlers have their turn. What is raised stops the run, which is
// saved; rethrow() then raises it.
class PythonObserver final : public TrainObserver {
 public:
  PythonObserver(Trainer& trainer, const py::object& tell) : trainer_(trainer), tell_(tell) {}

  void report(const TrainStatus& status) override { tell("report", status); }
  void measured(const TrainStatus& status) override { tell("measurement", status); }
  void evaluated(const TrainStatus& status, const AgentNetwork&, bool) override { tell("evaluation", status); }
  void finished(const TrainStatus& status, const AgentNetwork&) override { tell("end", status); }
  void evaluating() override {
    const auto now = std::chrono::steady_clock::now();
    if (now - looked_ < kBetweenLooks) return;
    looked_ = now;
    const py::gil_scoped_acquire held;
    guarded([] {});
  }

  void rethrow() const {
    if (raised_) std::rethrow_exception(raised_);
  }

 private:
  void tell(const char* kind, const TrainStatus& status) {
    const py::gil_scoped_acquire held;
    guarded([&] {
      if (!raised_ && tell_(kind, status_dict(status)).is(py::bool_(false))) trainer_.stop();
    });
  }

  template <class Action>
  void guarded(Action action) {
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      action();
    } catch (const py::error_already_set&) {
      if (!raised_) raised_ = std::current_exception();
      trainer_.stop();
    }
  }

  static constexpr std::chrono::milliseconds kBetweenLooks{100};

  Trainer& trainer_;
  const py::object& tell_;
  std::exception_ptr raised_;
  std::chrono::steady_clock::time_point looked_;
};

// The arrays of an engram.external.VectorRows, which its methods write.
class PythonEnvs final : public ForeignEnvs {
 public:
  PythonEnvs(py::object rows, const TaskInfo& task) : rows_(std::move(rows)) {
    size_ = rows_.attr("size").cast<int>();
    const auto size = static_cast<std::size_t>(size_);
    const auto bytes = size * static_cast<std::size_t>(task.observation.bytes());
    action_N_ = array<std::int32_t>("action", size);
    stepped_N_ = array<std::uint8_t>("stepped", size);
    observation_N_ = array<std::byte>("observation", bytes);
    reward_N_ = array<float>("reward", size);
    end_N_ = array<End>("end", size);
    success_N_ = array<std::uint8_t>("success", size);
    began_N_ = array<std::uint8_t>("began", size);
    first_observation_N_ = array<std::byte>("first_observation", bytes);
  }
  ~PythonEnvs() override {
    const py::gil_scoped_acquire held;
    rows_ = py::object();
  }
  PythonEnvs(const PythonEnvs&) = delete;
  PythonEnvs& operator=(const PythonEnvs&) = delete;

  int size() const override { return size_; }
  void reset(std::uint32_t seed) override {
    const py::gil_scoped_acquire held;
    rows_.attr("reset")(seed);
  }
  void step(std::span<const std::int32_t> action_N) override {
    std::memcpy(action_N_.data(), action_N.data(), action_N.size_bytes());
    const py::gil_scoped_acquire held;
    rows_.attr("step")();
  }

  std::span<const std::uint8_t> stepped_N() const override { return stepped_N_; }
  const std::byte* observation_N() const override { return observation_N_.data(); }
  std::span<const float> reward_N() const override { return reward_N_; }
  std::span<const End> end_N() const override { return end_N_; }
  std::span<const std::uint8_t> success_N() const override { return success_N_; }
  std::span<const std::uint8_t> began_N() const override { return began_N_; }
  const std::byte* first_observation_N() const override { return first_observation_N_.data(); }

 private:
  template <class T>
  std::span<T> array(const char* name, std::size_t count) const {
    const auto buffer = py::buffer(rows_.attr(name)).request(/*writable=*/true);
    if (static_cast<std::size_t>(buffer.size * buffer.itemsize) != count * sizeof(T))
      throw std::logic_error(std::string("the rows '") + name + "' have another size");
    return {static_cast<T*>(buffer.ptr), count};
  }

  py::object rows_;
  int size_ = 0;
  std::span<std::int32_t> action_N_;
  std::span<std::uint8_t> stepped_N_, success_N_, began_N_;
  std::span<std::byte> observation_N_, first_observation_N_;
  std::span<float> reward_N_;
  std::span<End> end_N_;
};

// `environments`: an engram.external.Environments, or None.
EnvironmentSource source_of(const py::object& environments, const Config& config) {
  if (environments.is_none()) return {};
  const auto make = [&environments, task = config.task.info(), seed = config.run.seed](Purpose purpose, int num_envs) {
    std::unique_ptr<ForeignEnvs> made;
    {
      const py::gil_scoped_acquire held;
      py::object rows = environments.attr("make")(purpose == Purpose::kTraining ? "training" : "evaluation", num_envs);
      made = std::make_unique<PythonEnvs>(std::move(rows), task);
    }
    return make_recorded_env(std::move(made), task, seed, purpose);
  };
  return {make, environments.attr("evaluates").cast<bool>()};
}

// LibTorch's threads and modes are the caller's again when it dies.
class CallersTorch {
 public:
  CallersTorch() = default;
  ~CallersTorch() { at::set_num_threads(threads_); }
  CallersTorch(const CallersTorch&) = delete;
  CallersTorch& operator=(const CallersTorch&) = delete;

  void use(const TrainingPlace& place) const { at::set_num_threads(place.threads.count); }

 private:
  const int threads_ = at::get_num_threads();
  const c10::InferenceMode with_gradients_{false};
};

// Where the run begins: anew, or where it stands if it was begun and may be gone on with.
TrainingStart find_start(const std::string& directory, const SettingsLayers& layers, bool resume,
                         const py::function& warn) {
  if (!resume || !RunDirectory::is_run(directory)) return begin_training(layers);
  TrainingStart start = resume_training(directory, layers, [&](const std::string& damage) { warn(damage); });
  if (start.checkpoint) return start;
  std::optional<RunDirectory> run = std::move(start.run);
  start = begin_training(layers);
  start.run = std::move(run);
  start.over = true;
  return start;
}

SettingsLayers layers_of(const Settings& defaults, const std::optional<std::string>& file,
                         const std::vector<std::pair<std::string, Settings>>& named) {
  SettingsLayers layers = {{.settings = defaults}};
  if (file) layers.push_back(read_run_settings(*file));
  for (const auto& [name, settings] : named) layers.push_back({.settings = settings, .name = name});
  return layers;
}

void refuse_other_task(const SettingsLayers& layers) {
  for (const SettingsLayer& layer : layers)
    for (const char* const key : {"task.name", "task.preset"})
      if (const std::string* const given = value_of(layer.settings, key); given != nullptr && *given != kExternalTask)
        throw UserError(std::string(key) + " '" + *given + "' and env contradict each other: give one of them");
}

py::dict train(const Settings& defaults, const std::optional<std::string>& file,
               const std::vector<std::pair<std::string, Settings>>& named, const std::string& directory, bool resume,
               const py::object& environments, const py::object& tell, const py::function& warn) {
  const SettingsLayers layers = layers_of(defaults, file, named);
  if (!environments.is_none()) refuse_other_task(layers);
  TrainingStart start = find_start(directory, layers, resume, warn);
  if (!environments.is_none() && parse_device(start.config.run.device).is_cuda())
    throw UserError("run.device '" + start.config.run.device +
                    "': environments of Python are played, and learnt from, on the CPU; device='cpu'");
  const EnvironmentSource source = source_of(environments, start.config);
  const CallersTorch callers;
  std::optional<PythonObserver> observer;
  TrainStatus status;
  try {
    const py::gil_scoped_release released;
    Ranks alone;
    const torch::Device device = parse_device(start.config.run.device);
    const c10::OptionalDeviceGuard current(device.is_cuda() ? std::optional(device) : std::nullopt);
    TrainingRun::Where where{directory, {"engram.train"}, training_place(start.config, alone)};
    where.source = source;
    callers.use(where.place);
    std::optional<RunDirectory> run;
    TrainingRun training(start, where, run);
    start.checkpoint.reset();  // its tensors are of no more use
    observer.emplace(training.trainer(), tell);
    status = training.run({&*observer});
  } catch (const EnvironmentFailure& failure) {
    std::rethrow_exception(failure.cause);
  } catch (const UserError&) {
    throw;
  } catch (const py::error_already_set&) {
    throw;
  } catch (const std::exception& error) {
    if (const auto reason = device_failure(error, start.config)) throw std::runtime_error(*reason);
    throw;
  }
  observer->rethrow();
  return status_dict(status);
}

}  // namespace

void bind_training(py::module_& module) {
  module.def(
      "train", &train, py::arg("defaults"), py::arg("file"), py::arg("settings"), py::arg("directory"),
      py::arg("resume"), py::arg("environments"), py::arg("tell"), py::arg("warn"),
      "One run of training by defaults, above these the settings of a file, and those of named layers. It tells "
      "tell(kind, status) how it goes on, which stops it by False, and warn(line) of damaged checkpoints. Returns "
      "the last status.");
}

}  // namespace engram::python
