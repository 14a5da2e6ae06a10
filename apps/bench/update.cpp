// engram bench update: one update of the learner, on a GPU against the same update by LibTorch's operations.
#include <time.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/act/observation_tensor.h"
#include "agents/act/roads.h"
#include "agents/learn/learner.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/bench/bench.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/text.h"
#include "base/text/words.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr const char* kUpdateHelp =
    R"(One update of the learner, of a batch of whole episodes. On a GPU: milliseconds, median of replays of the update's
CUDA graph, by the project's kernels in bfloat16 and in float32, and by LibTorch's operations in float32 with its
autograd. What computes the backbone stands below the figures. With --device cpu, by the project's loops and by
LibTorch's operations, in float32: the fastest of the updates that --seconds hold, because other work on the machine
only ever slows one down, and how long the least one kept processors busy, which other work changes less. Before that,
the losses of five updates of a small batch must be those of LibTorch on the CPU in double precision, with the same
dropout: within 2% in bfloat16, 0.01% in float32. A ratio is to LibTorch's operations, on a CPU of the time it was busy.
)";

// Of backbone, MLPs and batch.
enum class Size { kPublished, k3x100, k1x64, kQuickstart };

const std::vector<std::pair<std::string, Size>> kSizes = {
    {"published", Size::kPublished}, {"3x100", Size::k3x100}, {"1x64", Size::k1x64}, {"quickstart", Size::kQuickstart}};

Size parse_size(const std::string& text) {
  std::string known;
  for (const auto& [name, size] : kSizes) {
    if (name == text) return size;
    known += (known.empty() ? "" : ", ") + name;
  }
  throw UserError("--size '" + text + "' is none of " + known);
}

// configs/small/visual_match.ini, but for how long it runs.
Config quickstart(const std::string& backbone, const std::string& device) {
  Config config = Config::from_settings({{"task.name", "visual_match"},
                                         {"task.explore_steps", "2"},
                                         {"task.distractor_steps", "5"},
                                         {"task.reward_steps", "15"},
                                         {"task.final_reward", "10"},
                                         {"network.hidden_width", "64"},
                                         {"memory.name", backbone},
                                         {"learner.learning_rate", "1e-3"},
                                         {"replay.batch_episodes", "16"},
                                         {"run.device", device}});
  set_where_there(config, "memory.width", "32");
  set_where_there(config, "memory.layers", "1");
  config.memory.check();
  return config;
}

Config config_of(const std::string& backbone, Size size, const std::string& device) {
  if (size == Size::kQuickstart) return quickstart(backbone, device);
  Config config = published_run(backbone, device);
  if (size == Size::kPublished) return config;
  const bool small = size == Size::k1x64;
  Settings settings = {{"memory.width", small ? "64" : "100"}, {"memory.layers", small ? "1" : "3"}};
  if (small) settings.insert(settings.end(), {{"network.hidden_width", "64"}, {"replay.batch_episodes", "32"}});
  for (const auto& [key, value] : settings) set_where_there(config, key, value);
  config.memory.check();
  return config;
}

std::string backbone_road(const Config& config, torch::Device device) {
  for (const Road& road : roads_of(config, *make_network(config, config.task.info(), device), device))
    if (road.part == "backbone") return road_text(road);
  throw std::logic_error("an agent without a backbone's road");
}

// Episodes of random observations, actions and rewards; those of a real run have the same sizes.
EpisodeBatch random_batch(const TaskInfo& task, std::int64_t batch, std::int64_t steps, torch::Device device) {
  const std::vector<std::int64_t> shape = observation_shape({batch, steps + 1}, task.observation);
  const Tensor action = torch::randint(task.num_actions(), {batch, steps}, torch::kInt64);
  const Tensor none = torch::full({batch, 1}, task.num_actions(), torch::kInt64);
  const Tensor reward = torch::randn({batch, steps});
  const Tensor terminated = torch::zeros({batch, steps});
  terminated.select(1, steps - 1).fill_(1);
  EpisodeBatch episodes{.observation = task.observation.type == ElementType::kUint8
                                           ? torch::randint(256, shape, torch::kUInt8)
                                           : torch::randn(shape),
                        .previous_action_BT1 = torch::cat({none, action}, 1),
                        .previous_reward_BT1 = torch::cat({torch::zeros({batch, 1}), reward}, 1),
                        .action_BT = action,
                        .reward_BT = reward,
                        .terminated_BT = terminated,
                        .steps_B = torch::full({batch}, steps, torch::kInt64),
                        .mask_BT = torch::ones({batch, steps})};
  for (Tensor* tensor :
       {&episodes.observation, &episodes.previous_action_BT1, &episodes.previous_reward_BT1, &episodes.action_BT,
        &episodes.reward_BT, &episodes.terminated_BT, &episodes.steps_B, &episodes.mask_BT})
    *tensor = tensor->to(device);
  return episodes;
}

struct Setting {
  const char* label;
  bool kernels;
  torch::ScalarType dtype;
  bool wide = false;  // parameters and all else in double precision
};

std::shared_ptr<AgentNetwork> network_for(const Config& config, torch::Device device, const Setting& setting) {
  auto network = make_network(config, config.task.info(), device);
  if (setting.wide) network->to(torch::kFloat64);
  network->use_kernels(setting.kernels);
  network->compute_in(setting.dtype);
  network->train();
  return network;
}

// Losses of the critics and the actor over the first updates, of a batch that is the same on all devices.
std::vector<double> first_losses(const Config& config, torch::Device device, const Setting& setting) {
  constexpr int kUpdates = 5;
  torch::manual_seed(1);
  const TaskInfo task = config.task.info();
  const EpisodeBatch batch = random_batch(task, 4, std::min<std::int64_t>(60, task.max_episode_steps), device);
  Learner learner(config.learner, network_for(config, device, setting));
  std::vector<double> values;
  for (int i = 0; i < kUpdates; ++i) {
    const NamedScalars report = learner.update(batch);
    for (const char* const name : {"critic_loss", "actor_loss"}) values.push_back(named(report, name).item<double>());
  }
  return values;
}

double greatest_difference(const std::vector<double>& actual, const std::vector<double>& expected) {
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double difference = std::abs(actual[i] - expected[i]) / std::abs(expected[i]);
    worst = std::isfinite(difference) ? std::max(worst, difference) : INFINITY;
  }
  return worst;
}

EpisodeBatch batch_of(const Config& config, torch::Device device) {
  return random_batch(config.task.info(), config.replay.batch_episodes, config.task.info().max_episode_steps, device);
}

struct CpuTimes {
  double ms = NAN;            // of the fastest update
  double processor_ms = NAN;  // of the update that kept processors busy for the shortest time
};

// Of the updates that so many seconds hold, at least 5.
CpuTimes time_cpu_updates(Learner& learner, const EpisodeBatch& batch, double seconds) {
  constexpr int kWarmUp = 3, kLeast = 5;
  const auto clock_ms = [](clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return 1e3 * static_cast<double>(now.tv_sec) + 1e-6 * static_cast<double>(now.tv_nsec);
  };
  for (int i = 0; i < kWarmUp; ++i) learner.update(batch);
  CpuTimes best{INFINITY, INFINITY};
  double total = 0;
  for (int i = 0; i < kLeast || total < 1e3 * seconds; ++i) {
    const double begin = clock_ms(CLOCK_MONOTONIC), busy_begin = clock_ms(CLOCK_PROCESS_CPUTIME_ID);
    learner.update(batch);
    const double ms = clock_ms(CLOCK_MONOTONIC) - begin;
    best.processor_ms = std::min(best.processor_ms, clock_ms(CLOCK_PROCESS_CPUTIME_ID) - busy_begin);
    best.ms = std::min(best.ms, ms);
    total += ms;
  }
  return best;
}

struct UpdateArguments {
  std::string device = "cuda";
  std::string backbones, sizes;  // empty: those of the device
  int threads = 1;
  double seconds = 5;
  BenchOutput output;
};

// What is measured, of one size.
struct Part {
  std::string size;
  std::vector<std::string> backbones;
};

std::vector<Part> parts_of(const UpdateArguments& arguments, bool on_gpu) {
  std::vector<Part> parts;
  const std::string sizes = !arguments.sizes.empty() ? arguments.sizes : on_gpu ? "published" : "quickstart,1x64";
  for (const std::string& size : split_list(sizes)) {
    const bool quickstart = parse_size(size) == Size::kQuickstart;
    parts.push_back({size, split_list(!arguments.backbones.empty() ? arguments.backbones
                                      : quickstart                 ? "deltanet"
                                                                   : "hqlt,deltanet,transformer")});
    for (const std::string& backbone : parts.back().backbones)
      config_of(backbone, parse_size(size),
                on_gpu ? "cuda:0" : "cpu");  // refuses an unknown one before anything is measured
  }
  return parts;
}

// Fields of a row of either device.
BenchJson row_fields(const std::string& backbone, const std::string& size, const Config& config, const char* update,
                     double difference, double bound, double ms) {
  return {{"backbone", backbone},
          {"size", size},
          {"update", update},
          {"batch", config.replay.batch_episodes},
          {"rows", config.task.info().max_episode_steps + 1},
          {"loss_difference", difference},
          {"bound", bound},
          {"passed", difference <= bound},
          {"ms", ms}};
}

constexpr Setting kLibTorch{"LibTorch, float32", false, torch::kFloat32};

// On the CPU in double precision, by LibTorch.
std::vector<double> expected_losses(const Config& config) {
  return first_losses(config, torch::kCPU, {"float64", false, torch::kFloat64, /*wide=*/true});
}

int bench_on_gpu(const UpdateArguments& arguments) {
  const torch::Device device = bench_gpu("update");
  const torch::DeviceGuard guard(device);
  const std::vector<Part> parts = parts_of(arguments, /*on_gpu=*/true);
  BenchReport report("update", arguments.output, device, {{"ms", FigureKind::kTime}});
  constexpr Setting kSettings[] = {
      kLibTorch, {"kernels, float32", true, torch::kFloat32}, {"kernels, bfloat16", true, torch::kBFloat16}};
  // What rounding to bfloat16 and to float32 makes of a loss.
  const auto bound_of = [](const Setting& setting) { return setting.dtype == torch::kBFloat16 ? 0.02 : 1e-4; };
  bool all_passed = true;
  if (!report.json())
    std::printf("%-12s %-11s %-20s %12s %12s %10s\n", "backbone", "size", "update", "difference", "ms", "ratio");
  for (const auto& [size, backbones] : parts)
    for (const std::string& backbone : backbones) {
      const Config config = config_of(backbone, parse_size(size), "cuda:0");
      const std::string road = backbone_road(config, device);
      const std::vector<double> expected = expected_losses(config);
      double plain = NAN;
      for (const Setting& setting : kSettings) {
        const double difference = greatest_difference(first_losses(config, device, setting), expected);
        const double bound = bound_of(setting);
        const bool passed = difference <= bound;
        all_passed = all_passed && passed;
        double ms = NAN;
        if (passed) {
          Learner learner(config.learner, network_for(config, device, setting));
          ms = gpu_update_ms(learner, batch_of(config, device));
        }
        if (!setting.kernels) plain = ms;
        BenchJson fields = row_fields(backbone, size, config, setting.label, difference, bound, ms);
        fields["road"] = road;
        fields["ratio"] = plain / ms;
        report.add(
            backbone + ", " + size + ", " + setting.label, fields,
            formatted("%-12s %-11s %-20s %12.2g %12s %10s%s\n", backbone.c_str(), size.c_str(), setting.label,
                      difference, fixed(ms, 3).c_str(), fixed(plain / ms, 1).c_str(), passed ? "" : "  CHECK FAILED"));
      }
      if (!report.json()) std::printf("  %s\n", road.c_str());
    }
  return report.finish(all_passed);
}

int bench_on_cpu(const UpdateArguments& arguments) {
  constexpr double kBound = 1e-4;  // what rounding to float32 makes of a loss
  constexpr Setting kSettings[] = {kLibTorch, {"own loops, float32", true, torch::kFloat32}};
  const std::vector<Part> parts = parts_of(arguments, /*on_gpu=*/false);
  const int threads = use_threads(arguments.threads);
  const std::string on = counted(threads, "thread");
  BenchReport report("update", arguments.output, torch::kCPU,
                     {{"ms", FigureKind::kTime}, {"processor_ms", FigureKind::kTime}});
  bool all_passed = true;
  if (!report.json())
    std::printf("%-12s %-11s %-20s %12s %12s %12s %12s %8s\n", "backbone", "size", ("update, " + on).c_str(),
                "difference", "ms", "busy, ms", "updates/s", "ratio");
  for (const auto& [size, backbones] : parts)
    for (const std::string& backbone : backbones) {
      const Config config = config_of(backbone, parse_size(size), "cpu");
      const std::vector<double> expected = expected_losses(config);
      double plain = NAN;
      for (const Setting& setting : kSettings) {
        const double difference = greatest_difference(first_losses(config, torch::kCPU, setting), expected);
        const bool passed = difference <= kBound;
        CpuTimes times;
        if (passed) {
          Learner learner(config.learner, network_for(config, torch::kCPU, setting));
          times = time_cpu_updates(learner, batch_of(config, torch::kCPU), arguments.seconds);
          if (learner.faults().count > 0) throw std::runtime_error("check failed: an update is not finite");
        }
        all_passed = all_passed && passed;
        if (!setting.kernels) plain = times.processor_ms;
        const double ratio = plain / times.processor_ms;
        BenchJson fields = row_fields(backbone, size, config, setting.label, difference, kBound, times.ms);
        fields["threads"] = threads;
        fields["processor_ms"] = times.processor_ms;
        fields["updates_per_second"] = 1e3 / times.ms;
        fields["ratio"] = ratio;
        report.add(
            backbone + ", " + size + ", CPU, " + setting.label + ", " + on, fields,
            formatted("%-12s %-11s %-20s %12.2g %12s %12s %12s %8s%s\n", backbone.c_str(), size.c_str(), setting.label,
                      difference, fixed(times.ms, 2).c_str(), fixed(times.processor_ms, 2).c_str(),
                      fixed(1e3 / times.ms, 2).c_str(), fixed(ratio, 1).c_str(), passed ? "" : "  CHECK FAILED"));
      }
    }
  return report.finish(all_passed);
}

}  // namespace

int bench_update(const BenchCall& call) {
  UpdateArguments arguments;
  OptionList options("");
  options.add("device", arguments.device, "cpu | cuda, the first GPU");
  options.add("memory", arguments.backbones,
              "backbones, separated by commas; without it hqlt,deltanet,transformer, of the quickstart its deltanet");
  options.add(
      "size", arguments.sizes,
      "layers x width, separated by commas: published (each backbone's own defaults), 3x100, 1x64 (heads of 64, "
      "too, and 32 episodes), quickstart (configs/small/visual_match.ini); without it published on a GPU, "
      "quickstart,1x64 on the CPU");
  options.add("threads", arguments.threads, {1, 1024}, "threads on the CPU");
  options.add("seconds", arguments.seconds, {0.01, 600}, "time measured for each figure on the CPU, in seconds");
  if (!parse_bench_options("update", kUpdateHelp, options, arguments.output, call)) return 0;
  if (arguments.device == "cpu") return bench_on_cpu(arguments);
  if (arguments.device != "cuda") throw UserError("--device '" + arguments.device + "' is neither cpu nor cuda");
  return bench_on_gpu(arguments);
}

}  // namespace engram
