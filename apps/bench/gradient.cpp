// engram bench gradient: what of a loss's gradient reaches a cue over a delay (memory/core/cue_gradient.h), of first
// weights.
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

#include "agents/play/recorded_env.h"
#include "agents/run/config/config.h"
#include "agents/run/trained/trained_agent.h"
#include "apps/bench/bench.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/text.h"
#include "envs/vec/vec_env.h"
#include "experiments/probe/task.h"
#include "memory/core/cue_gradient.h"
#include "nn/layers/seeded_generator.h"

namespace engram {
namespace {

using torch::Tensor;

constexpr const char* kGradientHelp =
    R"(How much of the gradient of a loss at the end of a sequence reaches the cue that it began with: the norm of the
gradient at the cue's two steps over the norm of that at all steps, of the backbone's input, for a cue followed by
so many steps. The loss is a random linear read-out of the output at the last step, the weights are the first ones
of a run; the mean over rows and models. Of a backbone with fast weights and a window also the root mean square of
what either gives at the last step, before they are mixed. On the CPU, in float32, without dropout.
)";

constexpr std::int64_t kCueSteps = 2;
constexpr int kMaxDelay = 100'000;

enum class Inputs { kNormal, kVisualMatch };

struct GradientOptions {
  std::string backbones = "hqlt,deltanet,lstm,none";
  int width = 64;
  int layers = 1;
  std::string delays = "0,16,64,250,750";
  Inputs inputs = Inputs::kVisualMatch;
  int rows = 8;
  int models = 4;

  void list_options(OptionList& list) {
    list.add("memory", backbones, "backbones, separated by commas, each with options as in hqlt:window=16:mixing=sum");
    list.add("width", width, {1, 1 << 14}, "their memory.width");
    list.add("layers", layers, {1, 256}, "their memory.layers");
    list.add("delays", delays, "steps after the cue, separated by commas");
    list.add("inputs", inputs, {{Inputs::kVisualMatch, "visual_match"}, {Inputs::kNormal, "normal"}},
             "what the backbone is given: encoded observations of a random player at visual match, or N(0, 1) in every "
             "channel");
    list.add("rows", rows, {1, 4096}, "sequences of each model");
    list.add("models", models, {1, 1000}, "models, with the first weights of the seeds 1, 2, 3 ...");
  }
};

std::vector<int> parse_delays(const std::string& text) {
  if (text.empty()) throw UserError("--delays is empty");
  std::vector<int> delays;
  for (const std::string& word : split_list(text)) {
    int delay = 0;
    const char* const end = word.data() + word.size();
    const auto parsed = std::from_chars(word.data(), end, delay);
    if (parsed.ec != std::errc{} || parsed.ptr != end || delay < 0 || delay > kMaxDelay)
      throw UserError("--delays '" + text + "': '" + word + "' is not an integer 0.." + std::to_string(kMaxDelay));
    delays.push_back(delay);
  }
  return delays;
}

// A run at visual match whose colour is shown as long as the cue, and whose delay is this.
Config config_of(const std::string& entry, const GradientOptions& options, int delay) {
  try {
    const NamedSettings parsed = parse_named_settings(entry);
    Settings settings = {{"task.name", "visual_match"},
                         {"task.explore_steps", std::to_string(kCueSteps)},
                         {"task.distractor_steps", std::to_string(delay)},
                         {"memory.name", parsed.name},
                         {"memory.width", std::to_string(options.width)},
                         {"memory.layers", std::to_string(options.layers)}};
    for (const auto& [key, value] : parsed.settings) settings.emplace_back("memory." + key, value);
    return Config::from_settings(settings);
  } catch (const UserError& error) {
    throw UserError("--memory '" + entry + "': " + error.what());
  }
}

// [rows, steps, D]: what a random player sees, encoded.
Tensor encoded_observations(const Config& config, AgentNetwork& network, std::int64_t rows, std::int64_t steps) {
  const auto env = make_cpu_vec_env(config.task, config.run.seed, Purpose::kTest, static_cast<int>(rows), 1);
  const TaskInfo& info = env->info();
  const std::vector<std::int32_t> actions = draw_actions(static_cast<int>(steps), static_cast<int>(rows), info.action);
  const Tensor observation_N = rows_of(*env).observation_N;
  std::vector<Tensor> observation_T;
  env->reset_all();
  for (std::int64_t t = 0; t < steps; ++t) {
    if (t > 0)
      env->step(std::span(actions).subspan(static_cast<std::size_t>(t * rows), static_cast<std::size_t>(rows)));
    observation_T.push_back(observation_N.clone());
  }
  const torch::NoGradGuard no_grad;
  return network.encode(torch::stack(observation_T, 1), torch::full({rows, steps}, info.num_actions(), torch::kInt64),
                        torch::zeros({rows, steps}));
}

// The mean over the models. Weights and inputs are those of the models' seeds, whatever was measured before.
CueGradient measure(const std::string& entry, const GradientOptions& options, int delay) {
  Config config = config_of(entry, options, delay);
  const TaskInfo info = config.task.info();
  const std::int64_t steps = kCueSteps + delay;
  CueGradient mean{0, 0, 0};
  for (int model = 1; model <= options.models; ++model) {
    config.run.seed = static_cast<std::uint64_t>(model);
    const SeededGenerator drawing(config.run.seed);
    const auto network = draw_network(config, info, torch::kCPU);
    network->eval();
    const Tensor input = options.inputs == Inputs::kNormal
                             ? torch::randn({options.rows, steps, config.memory.width()})
                             : encoded_observations(config, *network, options.rows, steps);
    const CueGradient one = cue_gradient(network->backbone(), input, kCueSteps);
    mean.share += one.share / options.models;
    mean.fast_rms += one.fast_rms / options.models;
    mean.window_rms += one.window_rms / options.models;
  }
  return mean;
}

std::string scientific(double value) { return std::isnan(value) ? "-" : formatted("%.2e", value); }

}  // namespace

int bench_gradient(const BenchCall& call) {
  GradientOptions own;
  BenchOutput output;
  OptionList options = own_options(own);
  if (!parse_bench_options("gradient", kGradientHelp, options, output, call)) return 0;
  const std::vector<int> delays = parse_delays(own.delays);
  if (own.backbones.empty()) throw UserError("--memory is empty");
  const std::vector<std::string> entries = split_list(own.backbones);
  for (const std::string& entry : entries) config_of(entry, own, delays.front());  // before anything is printed
  std::size_t longest = 0;
  for (const std::string& entry : entries) longest = std::max(longest, entry.size());
  const int column = std::max(static_cast<int>(longest), 12);
  BenchReport report(
      "gradient", output, torch::kCPU,
      {{"share", FigureKind::kRate}, {"fast_rms", FigureKind::kRate}, {"window_rms", FigureKind::kRate}});
  if (!report.json())
    std::printf("%-*s %8s %12s %14s %12s\n", column, "backbone", "delay", "cue's share", "fast weights", "window");
  for (const std::string& entry : entries)
    for (const int delay : delays) {
      const CueGradient result = measure(entry, own, delay);
      report.add(formatted("%s, delay %d, %d x %d, %d rows of %d models, %s inputs", entry.c_str(), delay, own.layers,
                           own.width, own.rows, own.models, own.inputs == Inputs::kNormal ? "normal" : "visual_match"),
                 {{"backbone", entry},
                  {"delay", delay},
                  {"share", result.share},
                  {"fast_rms", result.fast_rms},
                  {"window_rms", result.window_rms}},
                 formatted("%-*s %8d %12s %14s %12s\n", column, entry.c_str(), delay, scientific(result.share).c_str(),
                           scientific(result.fast_rms).c_str(), scientific(result.window_rms).c_str()));
    }
  return report.finish();
}

}  // namespace engram
