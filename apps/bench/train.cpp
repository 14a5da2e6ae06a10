// engram bench train: whole training on policy, environments and all, in environment steps a second.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "agents/learn/experience/experience.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/run/training/run_share.h"
#include "agents/run/training/trainer.h"
#include "apps/bench/bench.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/text.h"

namespace engram {
namespace {

constexpr const char* kTrainHelp =
    R"(Recurrent PPO on repeat_previous_easy, from the first step to the last: acting, rules, recording, advantages and
updates, without evaluations; one layer, heads of 32 channels where the width is a multiple. Environment steps a
second, median over iterations, when those in which graphs are recorded are over; and how the time is divided. Before
that the first update of a learner must find that it learns what it has acted by: the divergence of the policy that it
learns from the one that has acted, which nothing has changed yet, is at most 1e-9 in float32 and 1e-3 in bfloat16.
)";

constexpr int kHeadWidth = 32;  // channels of a head, of memories that have heads

struct TrainArguments {
  std::string device = "cuda", memories = "gru,lstm,linear_transformer,hqlt,transformer", widths = "64,256",
              precision = "auto";
  int environments = 1024, epochs = 4, minibatches = 4, threads = 1;
  std::int64_t iteration_steps = 131'072;
  double seconds = 5;
  BenchOutput output;
};

Config config_of(const TrainArguments& arguments, const std::string& memory, const std::string& width) {
  Config config = Config::from_settings({{"task.preset", "repeat_previous_easy"},
                                         {"learner.name", "ppo"},
                                         {"learner.iteration_steps", std::to_string(arguments.iteration_steps)},
                                         {"learner.epochs", std::to_string(arguments.epochs)},
                                         {"learner.minibatches", std::to_string(arguments.minibatches)},
                                         {"memory.name", memory},
                                         {"network.hidden_width", width},
                                         {"run.num_envs", std::to_string(arguments.environments)},
                                         {"run.steps", "1000000000000"},
                                         {"run.device", arguments.device},
                                         {"run.threads", std::to_string(arguments.threads)},
                                         {"run.precision", arguments.precision},
                                         {"run.max_seconds", std::to_string(arguments.seconds)},
                                         {"run.metrics_every_steps", std::to_string(arguments.iteration_steps)},
                                         {"run.report_seconds", "86400"},
                                         {"evaluation.every_steps", "1000000000000"},
                                         {"evaluation.episodes", "1"},
                                         {"evaluation.final_episodes", "0"},
                                         {"checkpoint.every_minutes", "0"}});
  set_where_there(config, "memory.width", width);
  set_where_there(config, "memory.layers", "1");
  if (const std::int64_t channels = config.memory.width(); channels % kHeadWidth == 0)
    set_where_there(config, "memory.heads", std::to_string(channels / kHeadWidth));
  config.memory.check();
  return config;
}

// Of the policy that learns from the one that has acted, by the first update's own measure.
double first_divergence(const Config& config, torch::Device device) {
  const Ranks alone;
  auto network = draw_network(config, config.task.info(), device);
  network->train();
  const auto rollout = make_rollout(config, network, device, Purpose::kTraining, config.run.num_envs, 1);
  const auto experience = make_experience(config, share_of(config, alone), alone, device);
  while (!experience->owes_update()) {
    const Rollout::Played played = rollout->play(ActionChoice::kSample);
    if (played.episodes.empty()) continue;
    rollout->run([&] { experience->add(rollout->recording(), played.episodes); });
    for (const RecordedEpisode& episode : played.episodes) experience->count(episode.steps, 0);
  }
  Learner learner(config.learner, network);
  return named(experience->update(learner, {}, 0), "kl").item<double>();
}

// Environment steps and seconds at the end of each iteration.
class Iterated final : public TrainObserver {
 public:
  void measured(const TrainStatus& status) override {
    if (status.updates == updates_) return;
    updates_ = status.updates;
    marks_.push_back({Clock::now(), status.steps, status.seconds_acting, status.seconds_learning});
  }

  struct Figures {
    std::int64_t iterations = 0;
    double steps_per_second = NAN, iteration_ms = NAN;
    double acting = NAN, learning = NAN;  // shares
  };
  // Without the first ones.
  Figures figures() const {
    if (marks_.size() <= kWarmUp + 1) return {};
    std::vector<double> rates, times;
    for (std::size_t i = kWarmUp + 1; i < marks_.size(); ++i) {
      const double seconds = std::chrono::duration<double>(marks_[i].time - marks_[i - 1].time).count();
      rates.push_back(static_cast<double>(marks_[i].steps - marks_[i - 1].steps) / seconds);
      times.push_back(1e3 * seconds);
    }
    const Mark &first = marks_[kWarmUp], &last = marks_.back();
    const double seconds = std::chrono::duration<double>(last.time - first.time).count();
    return {.iterations = static_cast<std::int64_t>(rates.size()),
            .steps_per_second = median(rates),
            .iteration_ms = median(times),
            .acting = (last.acting - first.acting) / seconds,
            .learning = (last.learning - first.learning) / seconds};
  }

  // Until then graphs are recorded (agents/learn/recorded_step.cpp).
  static constexpr std::size_t kWarmUp = 2;

 private:
  using Clock = std::chrono::steady_clock;
  struct Mark {
    Clock::time_point time;
    std::int64_t steps;
    double acting, learning;
  };
  static double median(std::vector<double> values) {
    std::ranges::nth_element(values, values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2));
    return values[values.size() / 2];
  }

  std::int64_t updates_ = 0;
  std::vector<Mark> marks_;
};

bool measure(const Config& config, torch::Device device, BenchReport& report) {
  const std::string memory = config.memory.name(), width = std::to_string(config.memory.width());
  const bool in_bfloat16 = compute_dtype(config, device) == torch::kBFloat16;
  const char* const precision = in_bfloat16 ? "bfloat16" : "float32";
  const double divergence = first_divergence(config, device), bound = in_bfloat16 ? 1e-3 : 1e-9;
  const bool passed = divergence <= bound;
  Iterated::Figures figures;
  std::string acts_by;
  if (passed) {
    Trainer trainer(config, device, config.run.threads);
    Iterated iterated;
    trainer.run({&iterated});
    figures = iterated.figures();
    acts_by = trainer.acts_by();
  }
  const BenchJson fields = {{"backbone", memory},
                            {"width", config.memory.width()},
                            {"precision", precision},
                            {"environments", config.run.num_envs},
                            {"acts_by", acts_by},
                            {"divergence", divergence},
                            {"bound", bound},
                            {"passed", passed},
                            {"iterations", figures.iterations},
                            {"steps_per_second", figures.steps_per_second},
                            {"iteration_ms", figures.iteration_ms},
                            {"share_acting", figures.acting},
                            {"share_learning", figures.learning}};
  const std::string rate = figures.iterations > 0 ? formatted("%.3g", figures.steps_per_second) : "-";
  report.add(memory + ", " + width + ", " + precision, fields,
             formatted("%-20s %6s %-9s %12.2g %12s %12s %8s %8s%s\n", memory.c_str(), width.c_str(), precision,
                       divergence, rate.c_str(), fixed(figures.iteration_ms, 1, " ms").c_str(),
                       fixed(100 * figures.acting, 0, "%").c_str(), fixed(100 * figures.learning, 0, "%").c_str(),
                       passed ? "" : "  CHECK FAILED"));
  return passed;
}

}  // namespace

int bench_train(const BenchCall& call) {
  TrainArguments arguments;
  OptionList options("");
  options.add("device", arguments.device, "cpu | cuda, the first GPU");
  options.add("memory", arguments.memories, "backbones, separated by commas");
  options.add("width", arguments.widths, "of memory and heads, separated by commas");
  options.add("precision", arguments.precision, "auto | float32 | bfloat16, of products on a GPU");
  options.add("environments", arguments.environments, {1, 1'000'000}, "that collect in lockstep");
  options.add("iteration_steps", arguments.iteration_steps, {1, 1'000'000'000}, "environment steps of an iteration");
  options.add("epochs", arguments.epochs, {1, 10'000}, "passes of an iteration");
  options.add("minibatches", arguments.minibatches, {1, 1'000'000}, "updates of a pass");
  options.add("threads", arguments.threads, {1, 1024}, "of the CPU");
  options.add("seconds", arguments.seconds, {0.1, 86'400}, "of each training, the first iterations included");
  if (!parse_bench_options("train", kTrainHelp, options, arguments.output, call)) return 0;
  const bool on_cpu = arguments.device == "cpu";
  if (!on_cpu && arguments.device != "cuda")
    throw UserError("--device '" + arguments.device + "' is neither cpu nor cuda");
  const torch::Device device = on_cpu ? torch::Device(torch::kCPU) : bench_gpu("train");
  const torch::DeviceGuard guard(device);
  use_threads(arguments.threads);
  std::vector<Config> configs;
  for (const std::string& memory : split_list(arguments.memories))
    for (const std::string& width : split_list(arguments.widths))
      configs.push_back(config_of(arguments, memory, width));
  BenchReport report("train", arguments.output, device,
                     {{"steps_per_second", FigureKind::kRate}, {"iteration_ms", FigureKind::kTime}});
  if (!report.json())
    std::printf("%-20s %6s %-9s %12s %12s %12s %8s %8s\n", "backbone", "width", "precision", "divergence", "steps/s",
                "iteration", "acting", "learning");
  bool all_passed = true;
  for (const Config& config : configs) all_passed = measure(config, device, report) && all_passed;
  return report.finish(all_passed);
}

}  // namespace engram
