// engram evaluate: success and return of a trained agent, greedy and sampled, where it was trained and elsewhere.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/config/config_json.h"
#include "agents/run/machine/hardware.h"
#include "agents/run/trained/played_weights.h"
#include "agents/study/evaluation.h"
#include "agents/study/measured_json.h"
#include "agents/study/trace.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/threads.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/json_text.h"
#include "base/text/words.h"
#include "storage/files.h"
#include "storage/settings.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

struct EvaluateOptions {
  int episodes = 100;
  WhichWeights weights = WhichWeights::kBest;
  bool json = false;
  std::string trace;
  std::string range;
  bool keep = false;
  bool force = false;
  std::string device = "auto";
  int threads = 0;

  void list_options(OptionList& list) {
    list.add("episodes", episodes, {1, 10'000'000}, "episodes to play, greedily and again with sampled actions");
    list_weights(list, weights);
    list.add("json", json, "one JSON object instead of text");
    list.add("trace", trace, "safetensors file to write, with every step of the greedy episodes");
    list.add("force", force, "replace the file of --trace if it is there");
    list.add("range", range,
             "a number of the task and values of it to evaluate at, as in task.corridor_length: 10,20,50");
    list.add("keep", keep, "with --range: keep the results in DIR/evaluations.json, and make only what it lacks");
    list.add("device", device, "auto (a GPU where there is one) | cpu | cuda | cuda:N");
    list.add("threads", threads, {0, 1024}, "CPU threads; 0: one for a small network, else all available");
  }
};

CommandSyntax evaluate_syntax() {
  std::vector<std::string> setting_keys = task_config_keys();
  setting_keys.emplace_back("evaluation.dropout");
  return {.command = "evaluate",
          .positional = {"DIR"},
          .setting_keys = std::move(setting_keys),
          .values = {{"trace", {"FILE"}}, {"device", kDeviceValues}}};
}

void print_evaluate_help(const OptionList& own) {
  std::cout
      << help_head(
             {"engram evaluate DIR [--episodes N] [--weights best|last] [--json] [--trace FILE]",
              "engram evaluate DIR --task.key value ...",
              "engram evaluate DIR --range \"task.key: V1,V2,...\" [--keep]"},
             {"Plays the agent of the run directory DIR and prints its success rate (95% interval: Wilson) and return, "
              "undiscounted (95% interval: Student's t). Greedy: the most probable action; sampled: drawn from the "
              "policy. The episodes are of the run's seed, but ones that training never used. Channels are dropped, as "
              "in collecting, where evaluation.dropout is true in the run or given here (--evaluation.dropout true). "
              "Options of the task (--task.corridor_length 50; engram list tells which there are) let the agent play "
              "elsewhere than where it was trained, as long as it sees and does the same there."})
      << "Options\n";
  print_options(std::cout, own);
  std::cout << "\n"
            << wrapped(
                   "Tensors of a trace: M steps of E episodes, one after the other; D backbone width, A actions or "
                   "numbers of one",
                   2)
            << "\n"
               "  observations [M, ...]        what the agent saw, in the task's own type\n"
               "  features [M, D]              what its backbone put out\n"
               "  action_probabilities [M, A]  of its policy; of a continuous action instead:\n"
               "  action_means [M, A]          of each of its numbers, and\n"
               "  action_deviations [M, A]     how far around it the policy draws\n"
               "  q_values [M, A]              what it expects of each action; or\n"
               "  values [M]                   of each moment, of a critic of states\n"
               "  actions [M] or [M, A], rewards [M]  what it did, and what that earned\n"
               "  episode_starts [E]           first row of each episode\n"
               "  final_observations [E, ...]  what the last step led to\n"
               "  episode_ends [E]             1 terminated, 2 truncated\n"
               "  successes [E]                1 solved, 0 not\n";
}

void print_measured(const char* name, const MeasuredEpisodes& measured) {
  const auto& [success, total] = measured;
  std::printf("%-8s  success %5.1f%% (%.1f .. %.1f)", name, 100 * success.estimate, 100 * success.low,
              100 * success.high);
  if (std::isfinite(total.low))
    std::printf("   return %.3f (%.3f .. %.3f)\n", total.estimate, total.low, total.high);
  else
    std::printf("   return %.3f\n", total.estimate);
}

// What an agent is evaluated with.
struct Stage {
  torch::Device device;
  Threads threads;
};

// What all forms of --json begin with.
Json json_of(const std::string& run, const EvaluateOptions& options, const Config& config) {
  const std::optional<double> chance = config.task.info().chance_success;
  return {{"run", run},
          {"weights", name_of(options.weights)},
          {"task", config.task.name()},
          {"backbone", config.memory.name()},
          {"episodes", options.episodes},
          {"dropout", config.evaluation.dropout},
          {"chance_success", chance ? Json(*chance) : Json()}};
}

void print_title(const EvaluateOptions& options, const Config& config, const Stage& stage) {
  std::printf("%s on %s, %s weights, %s each%s; 95%% intervals in brackets\ncomputed by %s\n",
              config.memory.name().c_str(), config.task.name().c_str(), name_of(options.weights),
              counted(options.episodes, "episode").c_str(), config.evaluation.dropout ? " with dropout" : "",
              stage.threads.text().c_str());
}

void evaluate_once(const std::string& run, const EvaluateOptions& options, const Settings& task_settings,
                   const Stage& stage) {
  const TrainedAgent agent = load_trained_agent(run, options.weights, stage.device, task_settings);
  const auto [greedy, sampled, trace] = evaluate_agent(
      agent, {.episodes = options.episodes, .threads = stage.threads.count, .trace = !options.trace.empty()});
  if (trace) save_greedy_trace(options.trace, *trace, agent.config);
  if (options.json) {
    Json result = json_of(run, options, agent.config);
    result["differs"] = differs_json(agent.elsewhere);
    result["greedy"] = measured_json(greedy.measured);
    result["sampled"] = measured_json(sampled.measured);
    std::cout << json_text(result, 2) << std::endl;
    return;
  }
  print_title(options, agent.config, stage);
  for (const OptionDifference& option : agent.elsewhere)
    std::printf("trained with %s %s, evaluated with %s\n", option.name.c_str(), option.before.c_str(),
                option.now.c_str());
  print_measured("greedy", greedy.measured);
  print_measured("sampled", sampled.measured);
  if (const auto chance = agent.config.task.info().chance_success)
    std::printf("chance    success %5.1f%%\n", 100 * *chance);
  if (!options.trace.empty()) std::printf("trace: %s\n", options.trace.c_str());
}

void print_point(const std::string& value, const RangePoint& point) {
  const auto percent = [](const Interval& success) {
    return formatted("%5.1f (%.1f .. %.1f)", 100 * success.estimate, 100 * success.low, 100 * success.high);
  };
  std::printf("%12s  %-24s  %-24s\n", value.c_str(), percent(point.greedy.success).c_str(),
              percent(point.sampled.success).c_str());
  std::fflush(stdout);
}

void evaluate_at_range(const std::string& directory, const EvaluateOptions& options, const Stage& stage) {
  const RunDirectory run = RunDirectory::open(directory);
  const RangeRequest request{parse_range(options.range), options.weights,     stage.device,
                             options.episodes,           stage.threads.count, options.keep};
  const std::string& key = request.range.key;
  const Config trained = read_config(run.config_file());
  check_range(request.range, trained);
  const std::vector<OptionValue> task = trained.task.values();
  const OptionValue& option = *std::ranges::find(task, key, &OptionValue::name);  // check_range() has found it
  if (!options.json) {
    print_title(options, trained, stage);
    std::printf("trained with %s %s\n%12s  %-24s  %-24s\n", key.c_str(), option.text.c_str(), "evaluated",
                "greedy success, %", "sampled success, %");
  }
  Json points = Json::array();
  evaluate_range(
      run, request,
      [&](const EvaluationRange::Value& value, const RangePoint& point) {
        points.push_back(point_json(point));
        if (!options.json) print_point(value.text, point);
      },
      [](const std::string& damage) { std::cerr << "engram: " << damage << std::endl; });
  if (!options.json) return;
  Json result = json_of(directory, options, trained);
  result["trained"] = {{key, value_json(option.allowed, option.text)}};
  result["evaluations"] = std::move(points);
  std::cout << json_text(result, 2) << std::endl;
}

}  // namespace

void describe_evaluate(const CommandVisitor& visit) {
  describe_options<EvaluateOptions>("evaluate", evaluate_syntax(), visit);
}

int run_evaluate(const std::vector<std::string>& arguments) {
  EvaluateOptions options;
  const auto line = command_line_of(arguments, options, evaluate_syntax(), print_evaluate_help);
  if (!line) return 0;
  if (options.range.empty() && options.keep) throw UserError("--keep is for --range, whose results it keeps");
  if (!options.range.empty()) {
    if (!line->settings.empty())
      throw UserError("--range and --" + line->settings[0].first + " cannot be given together");
    if (!options.trace.empty()) throw UserError("--range and --trace cannot be given together");
    if (options.keep && options.weights == WhichWeights::kLast)
      throw UserError("--keep is of the best weights; it cannot be given with --weights last");
  }
  const torch::Device device = use_device(options.device);
  if (!options.trace.empty()) {
    check_writable(options.trace);
    check_not_there("trace", options.trace, options.force);
  }
  const Config trained = read_config(RunDirectory::open(line->positional[0]).config_file());
  const Threads threads = acting_threads(options.threads, trained, evaluation_envs(options.episodes), device);
  use_threads(threads.count);
  const Stage stage{device, threads};
  if (options.range.empty())
    evaluate_once(line->positional[0], options, line->settings, stage);
  else
    evaluate_at_range(line->positional[0], options, stage);
  return 0;
}

}  // namespace engram
