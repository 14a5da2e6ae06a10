// engram bench act: one step of the agent on a GPU, as it acts while collecting.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/make_policy.h"
#include "agents/act/observation_tensor.h"
#include "agents/play/rollout.h"
#include "agents/run/config/config.h"
#include "agents/run/machine/device_timing.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/bench/bench.h"
#include "base/text/formatted.h"
#include "base/text/text.h"
#include "nn/device/cuda_support.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr const char* kActHelp =
    R"(A step of N agents on a GPU, at the sizes of the published run, with sampled actions: microseconds of the
agent alone (encoder, memory, actor, action; median of CUDA-graph replays) without dropout, as in evaluating,
and with it, as in collecting; of agent with dropout, environment and recording together (whole episodes, all
that the host does included), with the environment steps per second that this makes; and the agent's step with
dropout by LibTorch's operations, launched one by one, and its ratio to the agent alone. Before that, 80 steps
without dropout must be LibTorch's in double precision: the RMS error of the action probabilities, and of
the memory relative to its own, at most 2e-5 with exact products, and with the bfloat16 products that are
timed at most that of LibTorch in bfloat16 (1.5 times that, where the agent is LibTorch's operations).
)";

// Float arithmetic: 1e-7 an operation, grown by sums of 500 terms and by what 12 products a layer pass on.
constexpr double kExactBound = 2e-5;
constexpr int kCheckedSteps = 80;  // the window is full

// Weights so large that observations and memory matter to the probabilities.
std::shared_ptr<AgentNetwork> scattered_network(const Config& config, torch::Device device) {
  auto network = make_network(config, config.task.info(), device);
  torch::manual_seed(config.run.seed);
  const torch::NoGradGuard no_grad;
  for (Tensor& parameter : network->parameters())
    if (parameter.dim() > 1) parameter.normal_(0, 1.5 / std::sqrt(static_cast<double>(parameter[0].numel())));
  return network;
}

std::unique_ptr<Policy> policy_of(Config config, std::shared_ptr<AgentNetwork> network, Precision precision, int rows) {
  config.run.precision = precision;
  network->compute_in(compute_dtype(config, torch::kCUDA));
  return make_policy(config, std::move(network), torch::kCUDA, rows, MemorySpan::kEpisode);
}

Tensor random_observation(const TaskInfo& task, int rows) {
  return torch::randint(256, observation_shape({rows}, task.observation),
                        torch::TensorOptions(torch::kCUDA).dtype(torch::kUInt8));
}

// Memory and probabilities of a step by LibTorch's operations.
class PlainAgent {
 public:
  PlainAgent(std::shared_ptr<AgentNetwork> network, int rows)
      : network_(std::move(network)), memory_(network_->backbone().initial_state(rows)) {
    network_->use_kernels(false);
    const auto options = torch::TensorOptions(torch::kCUDA);
    previous_action_ = torch::zeros({rows}, options.dtype(torch::kInt64));
    previous_reward_ = torch::zeros({rows}, options);
  }
  Tensor step(const Tensor& observation) {
    const torch::NoGradGuard no_grad;
    const Tensor encoded = network_->encode(observation, previous_action_, previous_reward_);
    return network_->head("actor", network_->step(encoded, memory_)).softmax(-1);
  }
  const MemoryState& memory() const { return memory_; }

 private:
  std::shared_ptr<AgentNetwork> network_;
  MemoryState memory_;
  Tensor previous_action_, previous_reward_;
};

// With the weights of `network`, converted.
std::shared_ptr<AgentNetwork> copy_in(torch::ScalarType type, const Config& config, AgentNetwork& network,
                                      torch::Device device) {
  const auto copy = make_network(config, config.task.info(), device);
  copy->to(type);
  copy->eval();
  const torch::NoGradGuard no_grad;
  const auto from = network.named_parameters();
  for (auto& parameter : copy->named_parameters()) parameter.value().copy_(from[parameter.key()]);
  return copy;
}

// The greatest of the RMS error of the action probabilities, over all steps, and of RMS(error) / RMS(reference) of the
// memory's tensors after the last; NaN where one is. `step` takes an observation and returns probabilities.
double error_of(const Config& config, PlainAgent reference, int rows, const std::function<Tensor(const Tensor&)>& step,
                const MemoryState& memory) {
  torch::manual_seed(1);
  double squares = 0;
  for (int i = 0; i < kCheckedSteps; ++i) {
    const Tensor observation = random_observation(config.task.info(), rows);
    squares += (step(observation) - reference.step(observation)).square().mean().item<double>();
  }
  double worst = std::sqrt(squares / kCheckedSteps);
  for (std::size_t i = 0; i < memory.tensors.size(); ++i) {
    const Tensor expected = reference.memory().tensors[i].to(torch::kFloat64);
    const double error = ((memory.tensors[i] - expected).norm() / expected.norm()).item<double>();
    if (std::isnan(error) || error > worst) worst = error;
  }
  return worst;
}

// Rows whose environments are not there: the observation is given.
ActingRows rows_with(const Tensor& observation) {
  const std::int64_t rows = observation.size(0);
  const auto options = torch::TensorOptions(torch::kCUDA);
  return {observation, torch::zeros({rows}, options), torch::ones({rows}, options.dtype(torch::kUInt8)),
          torch::zeros({rows}, options.dtype(torch::kInt32))};
}

double policy_error(const Config& config, torch::Device device, Precision precision, int rows) {
  const auto network = scattered_network(config, device);
  network->eval();
  const auto policy = policy_of(config, network, precision, rows);
  policy->refresh_weights();
  ActingRows acting = rows_with(random_observation(config.task.info(), rows));
  const auto step = [&](const Tensor& observation) {
    acting.observation_N = observation;
    policy->act(acting, ActionChoice::kSample);
    return policy->probabilities_NA();
  };
  return error_of(config, {copy_in(torch::kFloat64, config, *network, device), rows}, rows, step, policy->memory());
}

// The same of LibTorch in bfloat16.
double libtorch_error(const Config& config, torch::Device device, int rows) {
  const auto network = scattered_network(config, device);
  PlainAgent agent(copy_in(torch::kBFloat16, config, *network, device), rows);
  const auto step = [&](const Tensor& observation) { return agent.step(observation); };
  return error_of(config, {copy_in(torch::kFloat64, config, *network, device), rows}, rows, step, agent.memory());
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// Median microseconds of a call of `work` and of what it queues.
double host_us(int calls, const std::function<void()>& work) {
  std::vector<double> us;
  for (int i = 0; i < calls + 2; ++i) {
    torch::cuda::synchronize();
    const auto begin = std::chrono::steady_clock::now();
    work();
    torch::cuda::synchronize();
    if (i >= 2)
      us.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - begin).count());
  }
  return median(us);
}

struct ActFigures {
  std::string road;
  double exact_error = NAN, error = NAN, bound = NAN;
  // A step of all rows; the first without dropout.
  double evaluating_us = NAN, agent_us = NAN, round_us = NAN, libtorch_us = NAN;

  bool passed() const { return exact_error <= kExactBound && error <= bound; }
};

ActFigures measure(const Config& config, torch::Device device, int rows) {
  ActFigures figures;
  figures.exact_error = policy_error(config, device, Precision::kFloat32, rows);
  figures.error = policy_error(config, device, Precision::kBfloat16, rows);
  // The network's own operations round as LibTorch does, no better and no worse but for chance.
  figures.bound = libtorch_error(config, device, rows) * (supports_one_kernel(config, device) ? 1 : 1.5);
  if (!figures.passed()) return figures;

  const auto network = scattered_network(config, device);
  const auto policy = policy_of(config, network, Precision::kBfloat16, rows);
  figures.road = policy->description();
  const Tensor observation = random_observation(config.task.info(), rows);
  const ActingRows acting = rows_with(observation);
  Tensor fresh_N = acting.fresh_N;
  const auto agent_us = [&] {
    constexpr int kSteps = 50;
    const auto steps = [&] {
      const auto products = policy->compute_in();
      fresh_N.fill_(1);  // no episode is longer than the task allows
      for (int i = 0; i < kSteps; ++i) policy->act(acting, ActionChoice::kSample);
    };
    return 1e3 * torch_graph_ms(1, steps) / kSteps;
  };
  network->eval();
  figures.evaluating_us = agent_us();
  network->train();
  figures.agent_us = agent_us();

  Rollout rollout(make_recorded_cuda_env(config.task, 1, Purpose::kTraining, rows, Rollout::kStepsBetweenLooks),
                  policy_of(config, network, Precision::kBfloat16, rows));
  const auto episode = [&] {
    while (rollout.play(ActionChoice::kSample).episodes.empty()) {
    }
  };
  figures.round_us = host_us(5, episode) / config.task.info().max_episode_steps;

  PlainAgent plain(network, rows);
  figures.libtorch_us = host_us(30, [&] { plain.step(observation).multinomial(1); });
  return figures;
}

void print(const std::string& backbone, int delay, int rows, const ActFigures& figures, BenchReport& report) {
  const double rate = 1e6 * rows / figures.round_us, ratio = figures.libtorch_us / figures.agent_us;
  report.add(formatted("%s, %d agents, delay %d", backbone.c_str(), rows, delay),
             {{"backbone", backbone},
              {"envs", rows},
              {"acting", figures.road},
              {"exact_error", figures.exact_error},
              {"exact_bound", kExactBound},
              {"error", figures.error},
              {"bound", figures.bound},
              {"passed", figures.passed()},
              {"agent_without_dropout_us", figures.evaluating_us},
              {"agent_us", figures.agent_us},
              {"agent_environment_record_us", figures.round_us},
              {"environment_steps_per_second", rate},
              {"libtorch_agent_us", figures.libtorch_us},
              {"ratio", ratio}},
             formatted("%-20s %6d %9.2g %9.2g %9s %9s %13s %12s %9s %7s%s\n", backbone.c_str(), rows,
                       figures.exact_error, figures.error, fixed(figures.evaluating_us, 1).c_str(),
                       fixed(figures.agent_us, 1).c_str(), fixed(figures.round_us, 1).c_str(),
                       fixed(rate * 1e-6, 3, " M").c_str(), fixed(figures.libtorch_us, 0).c_str(),
                       fixed(ratio, 0, " x").c_str(), figures.passed() ? "" : "  CHECK FAILED"));
}

}  // namespace

int bench_act(const BenchCall& call) {
  std::string backbones;
  for (const std::string& name : backbone_names()) backbones += (backbones.empty() ? "" : ",") + name;
  int delay = 750;
  BenchOutput output;
  OptionList options("");
  options.add("memory", backbones, "backbones");
  options.add("delay", delay, {0, 100'000}, "steps between seeing the colour and the squares");
  if (!parse_bench_options("act", kActHelp, options, output, call)) return 0;
  const torch::Device device = bench_gpu("act");
  const torch::DeviceGuard guard(device);

  BenchReport report("act", output, device,
                     {{"agent_without_dropout_us", FigureKind::kTime},
                      {"agent_us", FigureKind::kTime},
                      {"agent_environment_record_us", FigureKind::kTime}});
  bool passed = true;
  if (!report.json())
    std::printf("%-20s %6s %9s %9s %9s %9s %13s %12s %9s %7s\n", "backbone", "N", "error", "bfloat16", "agent, us",
                "dropout", "+ env, record", "env steps/s", "LibTorch", "ratio");
  for (const std::string& backbone : split_list(backbones)) {
    Config config = published_run(backbone, "cuda:0");
    config.options().set("task.distractor_steps", std::to_string(delay));
    for (const int rows : {1, 64, 1024, 4096}) {
      const ActFigures figures = measure(config, device, rows);
      print(backbone, delay, rows, figures, report);
      passed = passed && figures.passed();
    }
  }
  return report.finish(passed);
}

}  // namespace engram
