// engram evaluate: success and return of a trained agent, greedy and sampled.
#include <cmath>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "agents/evaluator.h"
#include "agents/files.h"
#include "agents/hardware.h"
#include "agents/statistics.h"
#include "agents/trace.h"
#include "agents/trained_agent.h"
#include "agents/weights.h"
#include "apps/command_line.h"
#include "apps/commands.h"
#include "base/error.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

constexpr int kMaxEnvs = 64;

struct EvaluateOptions {
  int episodes = 100;
  WhichWeights weights = WhichWeights::kBest;
  bool json = false;
  std::string trace;
  std::string device = "auto";
  int threads = 0;

  void list_options(OptionList& list) {
    list.add("episodes", episodes, {1, 10'000'000}, "episodes to play, greedily and again with sampled actions");
    list.add("weights", weights, {{WhichWeights::kBest, "best"}, {WhichWeights::kLast, "last"}},
             "of the best evaluation during training, or of the end");
    list.add("json", json, "one JSON object instead of text");
    list.add("trace", trace, "safetensors file to write, with every step of the greedy episodes");
    list.add("device", device, "auto (a GPU where there is one) | cpu | cuda | cuda:N");
    list.add("threads", threads, {0, 1024}, "CPU threads; 0: one for a small network, else all available");
  }
};

void print_help(const OptionList& own) {
  std::cout << "engram evaluate DIR [--episodes N] [--weights best|last] [--json] [--trace FILE]\n\n"
            << wrapped(
                   "Plays the agent of the run directory DIR without dropout and prints its success rate (95% "
                   "interval: Wilson) and return, undiscounted (95% interval: Student's t). Greedy: the most "
                   "probable action; sampled: drawn from the policy. The episodes are of the run's seed, but ones "
                   "that training never used.",
                   0)
            << "\n\nOptions\n";
  print_options(std::cout, own);
  std::cout << "\nTensors of a trace: M steps of E episodes, one after the other; D backbone width, A actions\n"
               "  observations [M, ...]        what the agent saw, in the task's own type\n"
               "  features [M, D]              what its backbone put out\n"
               "  action_probabilities [M, A]  of its policy\n"
               "  q_values [M, A]              the smaller of both critics\n"
               "  actions [M], rewards [M]     what it did, and what that earned\n"
               "  episode_starts [E]           first row of each episode\n"
               "  final_observations [E, ...]  what the last step led to\n"
               "  episode_ends [E]             1 terminated, 2 truncated\n"
               "  successes [E]                1 solved, 0 not\n";
}

struct Measured {
  Interval success, total_return;
};

Measured measure(const std::vector<EpisodeResult>& results) {
  std::int64_t successes = 0;
  std::vector<double> returns;
  for (const EpisodeResult& result : results) {
    successes += result.success ? 1 : 0;
    returns.push_back(result.total_reward);
  }
  return {wilson_interval(successes, static_cast<std::int64_t>(results.size())), mean_interval(returns)};
}

Json interval_json(const Interval& interval) { return {interval.low, interval.high}; }

Json measured_json(const Measured& measured) {
  return {{"success", measured.success.estimate},
          {"success_interval", interval_json(measured.success)},
          {"return", measured.total_return.estimate},
          {"return_interval", interval_json(measured.total_return)}};
}

void print_measured(const char* name, const Measured& measured) {
  const auto& [success, total] = measured;
  std::printf("%-8s  success %5.1f%% (%.1f .. %.1f)", name, 100 * success.estimate, 100 * success.low,
              100 * success.high);
  if (std::isfinite(total.low))
    std::printf("   return %.3f (%.3f .. %.3f)\n", total.estimate, total.low, total.high);
  else
    std::printf("   return %.3f\n", total.estimate);
}

}  // namespace

int run_evaluate(const std::vector<std::string>& arguments) {
  EvaluateOptions options;
  OptionList own("");
  options.list_options(own);
  const CommandLine line = parse_command_line(arguments, own, {.positional = {"DIR"}});
  if (line.help) {
    print_help(own);
    return 0;
  }
  const torch::Device device = use_device(options.device);
  if (!options.trace.empty()) check_writable(options.trace);
  TrainedAgent agent = load_trained_agent(line.positional[0], options.weights, device);
  const std::uint64_t seed = agent.config.run.seed;
  const Threads threads = acting_threads(options.threads, agent.config, std::min(options.episodes, kMaxEnvs), device);
  use_threads(threads.count);

  const auto play = [&](ActionChoice choice) {
    const int size = std::min(options.episodes, kMaxEnvs);
    const auto environments =
        make_cpu_vec_env(agent.config.task, seed, Purpose::kEvaluation, size, worthwhile_threads(size, threads.count));
    Policy policy(agent.network, device, size, seed, kFirstUnseenEpisode);
    return evaluate(*environments, policy, options.episodes, choice, kFirstUnseenEpisode);
  };
  const auto play_traced = [&] {
    const auto environment = make_cpu_vec_env(agent.config.task, seed, Purpose::kEvaluation, 1, 1);
    Policy policy(agent.network, device, 1, seed, kFirstUnseenEpisode);
    Trace trace = record_trace(*environment, policy, options.episodes, ActionChoice::kGreedy, kFirstUnseenEpisode);
    save_safetensors(options.trace, trace.tensors,
                     {{"kind", "trace"}, {"config", agent.config.to_ini()}, {"policy", "greedy"}});
    return trace.results;
  };
  const Measured greedy = measure(options.trace.empty() ? play(ActionChoice::kGreedy) : play_traced());
  const Measured sampled = measure(play(ActionChoice::kSample));

  const std::optional<double> chance = agent.config.task.info().chance_success;
  const char* const weights = options.weights == WhichWeights::kBest ? "best" : "last";
  if (options.json) {
    const Json result = {{"run", line.positional[0]},        {"weights", weights},
                         {"task", agent.config.task.name()}, {"backbone", agent.config.memory.name()},
                         {"episodes", options.episodes},     {"chance_success", chance ? Json(*chance) : Json()},
                         {"greedy", measured_json(greedy)},  {"sampled", measured_json(sampled)}};
    std::cout << result.dump(2) << std::endl;
    return 0;
  }
  std::printf("%s on %s, %s weights, %d episodes each, %s; 95%% intervals in brackets\n",
              agent.config.memory.name().c_str(), agent.config.task.name().c_str(), weights, options.episodes,
              threads.text().c_str());
  print_measured("greedy", greedy);
  print_measured("sampled", sampled);
  if (chance) std::printf("chance    success %5.1f%%\n", 100 * *chance);
  if (!options.trace.empty()) std::printf("trace: %s\n", options.trace.c_str());
  return 0;
}

}  // namespace engram
