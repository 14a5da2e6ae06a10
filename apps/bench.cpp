// engram bench: how fast the parts are. Nothing is timed before it has passed its check.
#include <algorithm>
#include <boost/program_options.hpp>
#include <chrono>
#include <cstdio>
#include <functional>
#include <iostream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "apps/commands.h"
#include "base/error.h"
#include "base/rng.h"
#include "envs/vec_env.h"

namespace engram {
namespace {

namespace po = boost::program_options;

constexpr const char* kHelp = R"(Usage: engram bench SUBJECT [options]

Measures how fast a part of the program is on this machine. What is measured is first
checked against a plain computation of the same thing; a failed check stops the command.

Subjects:
  env    environment steps per second, observations included

'engram bench SUBJECT --help' lists the options of a subject.
)";

// ---- Environments ----

struct EnvBenchmark {
  int num_envs = 512;
  int num_threads = 1;
  double seconds = 1;
};

// Actions for `steps` steps, uniformly random, drawn before the clock starts.
std::vector<std::int32_t> draw_actions(int steps, int num_envs, int num_actions) {
  Rng rng(1, Purpose::kAction, 0, 0);
  std::vector<std::int32_t> actions(static_cast<std::size_t>(steps) * num_envs);
  for (std::int32_t& action : actions) action = static_cast<std::int32_t>(rng.below(num_actions));
  return actions;
}

// An image must show the drawn board around the player, and floor beyond the board: a plain second way to the same
// pixels. The player is found by its colour; where something covers it, there is nothing to compare.
void check_image(const VecEnv& env, int i, std::span<const std::uint8_t> image, Rgb player, Rgb floor) {
  Canvas board;
  env.draw(i, board);
  const auto side = static_cast<int>(env.info().observation.shape[1]);
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

// One thread and all threads must give the same bytes, over more than an episode, and images must show the board.
void check_env(const TaskConfig& task, int num_threads) {
  constexpr int kEnvs = 24;
  constexpr int kSteps = 2000;
  const auto one = make_cpu_vec_env(task, 1, Purpose::kTest, kEnvs, 1);
  const auto all = make_cpu_vec_env(task, 1, Purpose::kTest, kEnvs, std::max(2, num_threads));
  const ObservationSpec& observation = one->info().observation;
  const std::vector<std::int32_t> actions = draw_actions(kSteps, kEnvs, one->info().num_actions());
  for (int t = 0; t < kSteps; ++t) {
    const std::span step(actions.data() + t * kEnvs, kEnvs);
    one->reset_finished();
    all->reset_finished();
    one->step(step);
    all->step(step);
    if (!std::ranges::equal(one->observation_N(), all->observation_N()) ||
        !std::ranges::equal(one->reward_N(), all->reward_N()) || !std::ranges::equal(one->end_N(), all->end_N()))
      throw std::runtime_error("check failed: " + task.name() + " depends on the number of threads");
    if (observation.shape.size() != 3) continue;
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
  const std::vector<std::int32_t> actions = draw_actions(kActionSteps, benchmark.num_envs, env->info().num_actions());
  double best = 0;
  for (int part = 0; part < kParts; ++part) {
    using Clock = std::chrono::steady_clock;
    const Clock::time_point begin = Clock::now();
    std::int64_t steps = 0;
    double elapsed = 0;
    while (elapsed < benchmark.seconds / kParts) {
      for (int t = 0; t < kActionSteps; ++t) {
        env->reset_finished();
        env->step({actions.data() + static_cast<std::size_t>(t) * benchmark.num_envs,
                   static_cast<std::size_t>(benchmark.num_envs)});
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

std::string rate_text(double steps_per_second) {
  std::ostringstream text;
  text.precision(1);
  text << std::fixed << steps_per_second / 1e6 << " M steps/s";
  return text.str();
}

int bench_env(const std::vector<std::string>& arguments) {
  EnvBenchmark benchmark;
  std::string only_task;
  int num_threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  po::options_description options("Options", 100);
  options.add_options()("help", "this text")("task", po::value(&only_task)->value_name("NAME"),
                                             "only this task; without it every task is timed")(
      "num_envs", po::value(&benchmark.num_envs)->value_name("N")->default_value(benchmark.num_envs),
      "environments per thread that are stepped together")(
      "threads", po::value(&num_threads)->value_name("N")->default_value(num_threads),
      "threads of the run on all cores")(
      "seconds", po::value(&benchmark.seconds)->value_name("S")->default_value(benchmark.seconds),
      "time measured for each figure, in seconds; the best of fifty parts is printed")(
      "json", "one JSON object a task instead of the table");
  po::variables_map values;
  try {
    po::store(po::command_line_parser(arguments).options(options).positional({}).run(), values);
    po::notify(values);
  } catch (const po::error& error) {
    throw UserError(std::string("bench env: ") + error.what() + "; see engram bench env --help");
  }
  if (values.count("help") > 0) {
    std::cout << "Usage: engram bench env [options]\n\n"
                 "Environment steps per second on one core and on all cores: actions from a prepared random sequence,\n"
                 "rules, observations and resets. Visual match is timed at 15 + 750 + 15 steps an episode, the other\n"
                 "tasks with their defaults.\n\n"
              << options;
    return 0;
  }
  const auto in_range = [](const char* name, double value, double low, double high) {
    std::ostringstream text;
    text << "--" << name << " is " << value << "; it takes " << low << ".." << high;
    if (!(value >= low && value <= high)) throw UserError(text.str());
  };
  in_range("num_envs", benchmark.num_envs, 1, 100000);
  in_range("threads", num_threads, 1, 1024);
  in_range("seconds", benchmark.seconds, 0.01, 600);

  std::vector<std::string> tasks = task_names();
  if (!only_task.empty()) tasks = {TaskConfig(only_task).name()};
  const bool json = values.count("json") > 0;
  if (!json)
    std::printf("%-14s %14s %16s %16s\n", "task", "episode steps", "one core",
                ("threads: " + std::to_string(num_threads)).c_str());
  for (const std::string& name : tasks) {
    const TaskConfig task = benchmark_config(name);
    check_env(task, num_threads);
    const double one_core = time_env(task, {benchmark.num_envs, 1, benchmark.seconds});
    const double all_cores = time_env(task, {benchmark.num_envs * num_threads, num_threads, benchmark.seconds});
    const int episode_steps = task.info().max_episode_steps;
    if (json) {
      const nlohmann::json line = {{"task", name},
                                   {"episode_steps", episode_steps},
                                   {"steps_per_second_one_core", one_core},
                                   {"steps_per_second_all_cores", all_cores},
                                   {"threads", num_threads},
                                   {"envs_per_thread", benchmark.num_envs}};
      std::printf("%s\n", line.dump().c_str());
    } else {
      std::printf("%-14s %14d %16s %16s\n", name.c_str(), episode_steps, rate_text(one_core).c_str(),
                  rate_text(all_cores).c_str());
    }
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace

int run_bench(const std::vector<std::string>& arguments) {
  static const std::vector<std::pair<std::string, std::function<int(const std::vector<std::string>&)>>> kSubjects = {
      {"env", bench_env}};
  if (!arguments.empty() && (arguments[0] == "--help" || arguments[0] == "-h")) {
    std::fputs(kHelp, stdout);
    return 0;
  }
  std::string known;
  for (const auto& [name, bench] : kSubjects) {
    if (!arguments.empty() && arguments[0] == name) return bench({arguments.begin() + 1, arguments.end()});
    known += (known.empty() ? "" : ", ") + name;
  }
  throw UserError((arguments.empty() ? std::string("no subject") : "unknown subject '" + arguments[0] + "'") +
                  "; engram bench takes " + known);
}

}  // namespace engram
