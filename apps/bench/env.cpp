#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "apps/bench/bench.h"
#include "base/error.h"
#include "base/machine/processors.h"
#include "base/rng.h"
#include "base/text/formatted.h"
#include "envs/tasks/memory_rl/board.h"
#include "envs/vec/vec_env.h"

namespace engram {
namespace {

struct EnvBenchmark {
  int num_envs, num_threads;
  double seconds;
};

// An image must show the drawn board around the player, and floor beyond the board: a plain second way to the same
// pixels. The player is found by its colour; where something covers it, there is nothing to compare.
void check_image(const VecEnv& env, int i, std::span<const std::uint8_t> image, Rgb player, Rgb floor) {
  Canvas board;
  env.draw(i, board);
  const auto side = static_cast<int>(env.info().observation.shape()[1]);
  const int plane = side * side;
  const auto pixel = [&](int at) { return Rgb{image[at], image[plane + at], image[2 * plane + at]}; };
  if (pixel(plane / 2) != player) return;
  for (int row = 0; row < board.rows(); ++row)
    for (int column = 0; column < board.columns(); ++column) {
      if (board.at(row, column) != player) continue;
      for (int at = 0; at < plane; ++at) {
        const int r = row + at / side - side / 2;
        const int c = column + at % side - side / 2;
        const bool inside = r >= 0 && r < board.rows() && c >= 0 && c < board.columns();
        if (pixel(at) != (inside ? board.at(r, c) : floor))
          throw std::runtime_error("check failed: an observation of " + env.info().name + " differs from its board");
      }
      return;
    }
  throw std::runtime_error("check failed: the board of " + env.info().name + " shows no player");
}

// One thread and all threads must give the same bytes, over more than an episode, and the crops of a board must show
// it.
void check_env(const TaskConfig& task, int num_threads) {
  constexpr int kEnvs = 24;
  constexpr int kSteps = 2000;
  const auto one = make_cpu_vec_env(task, 1, Purpose::kTest, kEnvs, 1);
  const auto all = make_cpu_vec_env(task, 1, Purpose::kTest, kEnvs, std::max(2, num_threads));
  const ObservationSpec& observation = one->info().observation;
  const std::vector<std::int32_t> actions = draw_actions(kSteps, kEnvs, one->info().action);
  const auto step_words = static_cast<std::size_t>(kEnvs * one->info().action.words());
  for (int t = 0; t < kSteps; ++t) {
    const std::span step(actions.data() + t * step_words, step_words);
    one->reset_finished();
    all->reset_finished();
    one->step(step);
    all->step(step);
    if (!std::ranges::equal(one->observation_N(), all->observation_N()) ||
        !std::ranges::equal(one->reward_N(), all->reward_N()) || !std::ranges::equal(one->end_N(), all->end_N()))
      throw std::runtime_error("check failed: " + task.name() + " depends on the number of threads");
    // Other images do not show the board in its colours.
    if (observation.shape() != std::vector<std::int64_t>{3, board::kCrop, board::kCrop}) continue;
    const auto bytes = static_cast<std::size_t>(observation.bytes());
    for (int i = 0; i < kEnvs; ++i) {
      const auto* const image = reinterpret_cast<const std::uint8_t*>(one->observation_N().data()) + i * bytes;
      check_image(*one, i, {image, bytes}, Rgb{228, 148, 109}, Rgb{204, 204, 204});
    }
  }
}

// Steps per second of the best of fifty parts of the time: other work on the machine only ever slows a part down.
double time_env(const TaskConfig& task, const EnvBenchmark& benchmark) {
  constexpr int kParts = 50;
  constexpr int kActionSteps = 128;
  const auto env = make_cpu_vec_env(task, 1, Purpose::kTest, benchmark.num_envs, benchmark.num_threads);
  const std::vector<std::int32_t> actions = draw_actions(kActionSteps, benchmark.num_envs, env->info().action);
  const std::size_t step_words = actions.size() / kActionSteps;
  double best = 0;
  for (int part = 0; part < kParts; ++part) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    std::int64_t steps = 0;
    double elapsed = 0;
    while (elapsed < benchmark.seconds / kParts) {
      for (int t = 0; t < kActionSteps; ++t) {
        env->reset_finished();
        env->step({actions.data() + static_cast<std::size_t>(t) * step_words, step_words});
      }
      steps += static_cast<std::int64_t>(kActionSteps) * benchmark.num_envs;
      elapsed = std::chrono::duration<double>(Clock::now() - begin).count();
    }
    best = std::max(best, static_cast<double>(steps) / elapsed);
  }
  return best;
}

// The sizes that are timed: visual match as in the HQLT paper, other tasks with their defaults.
TaskConfig benchmark_config(const std::string& task) {
  return task == "visual_match" ? TaskConfig::from_preset("visual_match_hqlt") : TaskConfig(task);
}

struct EnvArguments {
  std::string task;  // empty: all
  std::string device = "cpu";
  int num_envs = 512;  // of each thread on the CPU
  int gpu_envs = 1 << 20;
  int num_threads = available_processors();
  double seconds = 1;
  BenchOutput output;
};

constexpr const char* kEnvHelp =
    R"(Environment steps per second on one core and on all cores: actions from a prepared random sequence,
rules, observations and resets. Visual match is timed at 15 + 750 + 15 steps an episode, the other
tasks with their defaults.
With --device cuda: the same on a GPU, replayed from a CUDA graph, after every byte of some episodes
was found equal to the CPU's; the share of a device copy's bandwidth that the steps' reads and writes
take; and the CPU's figure on all cores.
)";

// False where nothing is to be measured.
bool parse(const BenchCall& call, EnvArguments& arguments) {
  OptionList options("");
  options.add("task", arguments.task, "only this task; without it every task is timed");
  options.add("device", arguments.device, "cpu | cuda | cuda:N | auto (a GPU where there is one)");
  options.add("num_envs", arguments.num_envs, {1, 100'000}, "environments that a thread steps together");
  options.add("gpu_envs", arguments.gpu_envs, {1, 10'000'000}, "environments that a GPU steps together");
  options.add("threads", arguments.num_threads, {1, 1024}, "threads of the run on all cores");
  options.add("seconds", arguments.seconds, {0.01, 600},
              "time measured for each figure, in seconds; the best of fifty parts on the CPU, the median on a GPU");
  return parse_bench_options("env", kEnvHelp, options, arguments.output, call);
}

std::string rate_text(double steps_per_second) { return fixed(steps_per_second / 1e6, 1, " M steps/s"); }

BenchReport report_of(const EnvArguments& arguments, torch::Device device) {
  return {"env",
          arguments.output,
          device,
          {{"steps_per_second_one_core", FigureKind::kRate},
           {"steps_per_second_all_cores", FigureKind::kRate},
           {"steps_per_second", FigureKind::kRate},
           {"steps_per_second_cpu", FigureKind::kRate}}};
}

void bench_on_cpu(const std::vector<std::string>& tasks, const EnvArguments& arguments, BenchReport& report) {
  const int threads = arguments.num_threads;
  if (!report.json())
    std::printf("%-16s %14s %18s %18s\n", "task", "episode steps", "one core",
                ("threads: " + std::to_string(threads)).c_str());
  for (const std::string& name : tasks) {
    const TaskConfig task = benchmark_config(name);
    check_env(task, threads);
    const double one_core = time_env(task, {arguments.num_envs, 1, arguments.seconds});
    const double all_cores = time_env(task, {arguments.num_envs * threads, threads, arguments.seconds});
    const int episode_steps = task.info().max_episode_steps;
    report.add(formatted("%s on the CPU, %d threads of %d environments", name.c_str(), threads, arguments.num_envs),
               {{"task", name},
                {"device", "cpu"},
                {"episode_steps", episode_steps},
                {"steps_per_second_one_core", one_core},
                {"steps_per_second_all_cores", all_cores},
                {"threads", threads},
                {"envs_per_thread", arguments.num_envs}},
               formatted("%-16s %14d %18s %18s\n", name.c_str(), episode_steps, rate_text(one_core).c_str(),
                         rate_text(all_cores).c_str()));
  }
}

void bench_on_gpu(const std::vector<std::string>& tasks, const EnvArguments& arguments, BenchReport& report) {
  const torch::DeviceGuard guard(parse_device(arguments.device));
  const int threads = arguments.num_threads;
  const double copy = device_copy_bytes_per_second();
  if (!report.json())
    std::printf("a device copy reads and writes %s\n%-16s %14s %10s %20s %10s %18s %8s\n",
                fixed(copy * 1e-12, 2, " TB/s").c_str(), "task", "episode steps", "envs", "GPU", "of copy",
                ("CPU, threads: " + std::to_string(threads)).c_str(), "ratio");
  for (const std::string& name : tasks) {
    const TaskConfig task = benchmark_config(name);
    check_env(task, threads);
    check_cuda_env(task);
    const CudaEnvFigures gpu = time_cuda_env(task, arguments.gpu_envs, arguments.seconds);
    const double cpu = time_env(task, {arguments.num_envs * threads, threads, arguments.seconds});
    const double share = gpu.steps_per_second * gpu.step_bytes / copy, ratio = gpu.steps_per_second / cpu;
    const int episode_steps = task.info().max_episode_steps;
    report.add(formatted("%s on a GPU, %d environments; CPU: %d threads of %d", name.c_str(), arguments.gpu_envs,
                         threads, arguments.num_envs),
               {{"task", name},
                {"device", arguments.device},
                {"episode_steps", episode_steps},
                {"envs", arguments.gpu_envs},
                {"steps_per_second", gpu.steps_per_second},
                {"bytes_per_step", gpu.step_bytes},
                {"device_copy_bytes_per_second", copy},
                {"share_of_device_copy", share},
                {"steps_per_second_cpu", cpu},
                {"threads", threads},
                {"ratio", ratio}},
               formatted("%-16s %14d %10d %20s %10s %18s %8s\n", name.c_str(), episode_steps, arguments.gpu_envs,
                         rate_text(gpu.steps_per_second).c_str(), fixed(100 * share, 0, "%").c_str(),
                         rate_text(cpu).c_str(), fixed(ratio, 0, " x").c_str()));
  }
}

}  // namespace

std::vector<std::int32_t> draw_actions(int steps, int num_envs, const ActionSpec& action) {
  Rng rng(1, Purpose::kAction, 0, 0);
  const auto words = static_cast<std::size_t>(action.words());
  std::vector<std::int32_t> actions(static_cast<std::size_t>(steps) * num_envs * words);
  for (std::size_t at = 0; at < actions.size(); at += words) draw_action(action, rng, actions.data() + at);
  return actions;
}

int bench_env(const BenchCall& call) {
  EnvArguments arguments;
  if (!parse(call, arguments)) return 0;
  std::vector<std::string> tasks = task_names();
  if (!arguments.task.empty()) tasks = {TaskConfig(arguments.task).name()};
  const torch::Device device = parse_device(arguments.device);  // refuses a GPU that is not there
  BenchReport report = report_of(arguments, device);
  if (device.is_cuda())
    bench_on_gpu(tasks, arguments, report);
  else
    bench_on_cpu(tasks, arguments, report);
  return report.finish();
}

}  // namespace engram
