// Trained agents: how they act, row by row, and what evaluating and diagnosing them finds.
#include <pybind11/stl.h>
#include <pybind11/stl/filesystem.h>
#include <torch/torch.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "agents/act/acting_state.h"
#include "agents/run/config/config_json.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/diagnosis_json.h"
#include "agents/study/evaluation.h"
#include "agents/study/run_diagnosis.h"
#include "base/text/json_text.h"
#include "python/binding/binding.h"
#include "python/binding/loaded_agent.h"
#include "python/binding/networks.h"
#include "python/binding/signals.h"

namespace engram::python {
namespace {

namespace py = pybind11;

ActionChoice choice_of(bool greedy) { return greedy ? ActionChoice::kGreedy : ActionChoice::kSample; }

ActingState initial_state(const TrainedAgent& agent, int rows, std::uint64_t seed) {
  const c10::DeviceGuard on(agent.device());
  const TaskInfo task = agent.config.task.info();
  return {agent.network, task.action, compute_dtype(agent.config, agent.device()), rows, seed, task.max_episode_steps};
}

py::tuple as_tuple(const Interval& interval) { return py::make_tuple(interval.estimate, interval.low, interval.high); }

py::dict as_dict(const AgentEvaluation::Played& played) {
  std::vector<double> returns;
  std::vector<std::int64_t> lengths;
  std::vector<std::uint8_t> successes;
  for (const EpisodeResult& episode : by_number(played.episodes)) {
    returns.push_back(episode.total_reward);
    lengths.push_back(episode.steps);
    successes.push_back(episode.success ? 1 : 0);
  }
  py::dict dict;
  dict["success"] = as_tuple(played.measured.success);
  dict["mean_return"] = as_tuple(played.measured.total_return);
  dict["returns"] = torch::tensor(returns, torch::kFloat64);
  dict["successes"] = torch::tensor(successes, torch::kUInt8).to(torch::kBool);
  dict["lengths"] = torch::tensor(lengths, torch::kInt64);
  return dict;
}

py::dict evaluate(const TrainedAgent& agent, int episodes, bool trace) {
  AgentEvaluation found;
  {
    const py::gil_scoped_release released;
    const c10::DeviceGuard on(agent.device());
    found = evaluate_agent(agent, {.episodes = episodes, .trace = trace, .between_steps = SignalCheck()});
  }
  py::dict dict;
  dict["greedy"] = as_dict(found.greedy);
  dict["sampled"] = as_dict(found.sampled);
  dict["trace"] = found.trace;
  return dict;
}

std::string diagnose(const TrainedAgent& agent, const std::filesystem::path& run, int episodes) {
  std::vector<std::string> warnings;
  std::string text;
  {
    const py::gil_scoped_release released;
    const c10::DeviceGuard on(agent.device());
    const RunDiagnosis findings = diagnose_run(RunDirectory::open(run), agent, {.episodes = episodes},
                                               [&](const std::string& warning) { warnings.push_back(warning); });
    text = json_text(run_diagnosis_json(run.string(), findings, agent));
  }
  for (const std::string& warning : warnings)
    if (PyErr_WarnEx(PyExc_RuntimeWarning, warning.c_str(), 2) != 0) throw py::error_already_set();
  return text;
}

}  // namespace

void bind_agents(py::module_& module) {
  using Released = py::call_guard<py::gil_scoped_release>;

  py::class_<ActingState>(module, "ActingState")
      .def("__len__", &ActingState::size)
      .def("begin_episodes", &ActingState::begin_episodes, py::arg("mask"), Released())
      .def(
          "act",
          [](const ActingState& state, const torch::Tensor& observation, const torch::Tensor& reward, bool greedy) {
            const c10::DeviceGuard on(state.action_N().device());
            return state.act(observation, reward, choice_of(greedy));
          },
          py::arg("observation"), py::arg("reward"), py::arg("greedy"), Released())
      .def_property_readonly("all_begin", &ActingState::all_begin)
      .def_property_readonly("actions",
                             [](const ActingState& state) {
                               const torch::Tensor& action_N = state.action_N();
                               return action_N.dim() == 1 ? action_N : numbers_of(action_N);
                             })
      .def(
          "step",
          [](const ActingState& state) {
            const c10::DeviceGuard on(state.action_N().device());
            const NetworkPolicy::Step step = state.step();
            return std::vector{step.features_ND, step.probabilities_NA, step.value_NK};
          },
          Released());

  py::class_<TrainedAgent>(module, "TrainedAgent")
      .def(py::init(&load_agent), py::arg("run"), py::arg("weights"), py::arg("device"), py::arg("task_settings"),
           Released())
      .def_property_readonly("config", [](const TrainedAgent& agent) { return json_text(config_json(agent.config)); })
      .def_property_readonly("differs",
                             [](const TrainedAgent& agent) { return json_text(differs_json(agent.elsewhere)); })
      .def_property_readonly("device", &TrainedAgent::device)
      .def_property_readonly("task", [](const TrainedAgent& agent) { return agent.config.task.info(); })
      .def_property_readonly("sees_previous_reward",
                             [](const TrainedAgent& agent) { return agent.network->sees_previous_reward(); })
      .def_property_readonly("values_are_of_actions",
                             [](const TrainedAgent& agent) {
                               return agent.network->make_action_rule(agent.device())->values_are_of_actions();
                             })
      .def("initial_state", &initial_state, py::arg("rows"), py::arg("seed"), Released())
      .def(
          "network", [](const TrainedAgent& agent) { return std::make_unique<NativeAgentNetwork>(agent); }, Released())
      .def("evaluate", &evaluate, py::arg("episodes"), py::arg("trace"))
      .def("diagnose", &diagnose, py::arg("run"), py::arg("episodes"));
}

}  // namespace engram::python
