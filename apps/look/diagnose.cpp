// engram diagnose: why a trained agent does not solve a task that asks for memory.
#include <array>
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/hardware.h"
#include "agents/run/trained_agent.h"
#include "agents/study/run_diagnosis.h"
#include "agents/study/statistics.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/threads.h"
#include "apps/look/diagnose_meaning.h"
#include "apps/look/inspect.h"
#include "apps/look/played_weights.h"
#include "base/error.h"
#include "base/formatted.h"
#include "base/json_text.h"

namespace engram {
namespace {

using Json = nlohmann::ordered_json;

struct DiagnoseOptions {
  int episodes = 100;
  WhichWeights weights = WhichWeights::kBest;
  bool json = false;
  std::string device = "auto";
  int threads = 0;

  void list_options(OptionList& list) {
    list.add("episodes", episodes, {1, 100'000},
             "episodes to play greedily, to play with sampled actions, and to take from the replay");
    list_weights(list, weights);
    list.add("json", json, "one JSON object instead of text");
    list.add("device", device, "auto (a GPU where there is one) | cpu | cuda | cuda:N");
    list.add("threads", threads, {0, 1024}, "CPU threads; 0: one for a small network, else all available");
  }
};

CommandSyntax diagnose_syntax() {
  return {.command = "diagnose",
          .positional = {"DIR"},
          .setting_keys = task_config_keys(),
          .values = {{"device", kDeviceValues}}};
}

void print_diagnose_help(const OptionList& own) {
  std::cout << wrapped("engram diagnose DIR [--episodes N] [--weights best|last] [--json] [--task.key value ...]", 2)
            << "\n\n"
            << wrapped(
                   "Plays the agent of the run directory DIR without dropout, greedily and with sampled actions, on "
                   "the episodes of engram evaluate, takes as many episodes that it has learnt from out of the run's "
                   "newest checkpoint, and says",
                   0)
            << "\n"
            << wrapped("- how often it decides, and how often rightly;", 2) << "\n"
            << wrapped("- where in the task its critics err, by the task's phases;", 2) << "\n"
            << wrapped("- whether its critics tell right decisions from wrong ones, on fresh and on learnt episodes;",
                       2)
            << "\n"
            << wrapped("- for how many steps its memory holds the cue: how well a linear map reads it from h_t;", 2)
            << "\n"
            << wrapped("- what these figures mean, in a few sentences.", 2) << "\n\n"
            << wrapped(
                   "With options of the task (--task.distractor_steps 100) it plays elsewhere than where it was "
                   "trained; then no learnt episodes are looked at.",
                   0)
            << "\n\nOptions\n";
  print_options(std::cout, own);
}

// What is looked into: episodes of one kind, or null.
struct DiagnosedKind {
  const char* name;
  const Diagnosis* found;
};

std::array<DiagnosedKind, 3> all_kinds(const RunDiagnosis& findings) {
  return {{{"greedy", &findings.greedy},
           {"sampled", &findings.sampled},
           {"replayed", findings.replayed ? &*findings.replayed : nullptr}}};
}

std::string shown(double value) { return formatted("%.4g", value); }

std::string interval_text(std::int64_t count, std::int64_t total) {
  const Interval interval = wilson_interval(count, total);
  return formatted("%5.1f (%.1f .. %.1f)", 100 * interval.estimate, 100 * interval.low, 100 * interval.high);
}

void print_successes(const RunDiagnosis& findings, const Config& config) {
  std::printf("\n%-10s %8s  %-22s  %-22s  %s\n", "", "episodes", "success, %", "decided, %", "right of these, %");
  for (const auto& [name, looked] : all_kinds(findings)) {
    if (looked == nullptr) {
      std::printf("%-10s none: %s\n", name, findings.why_none_replayed.c_str());
      continue;
    }
    const Diagnosis& found = *looked;
    std::string decided = "-", right = "-";
    if (const auto& decisions = found.decisions) {
      const std::int64_t count = decisions->right + decisions->wrong;
      decided = interval_text(count, found.episodes);
      if (count > 0) right = interval_text(decisions->right, count);
    }
    std::printf("%-10s %8lld  %-22s  %-22s  %s\n", name, static_cast<long long>(found.episodes),
                interval_text(found.solved, found.episodes).c_str(), decided.c_str(), right.c_str());
  }
  if (const auto chance = config.task.info().chance_success)
    std::printf("%-10s %8s  %5.1f\n", "chance", "", 100 * *chance);
}

void print_decisions(const RunDiagnosis& findings) {
  if (!findings.sampled.decisions) {
    std::printf("\nThe task does not say what its decision is.\n");
    return;
  }
  std::printf("\nQ at the deciding step: area under the curve of right against wrong decisions; chance 0.5\n");
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    const Diagnosis::Decisions& decisions = *found->decisions;
    const std::string auc = decisions.q_auc ? formatted("%.3f", *decisions.q_auc) : "-";
    std::printf("%-10s %8s  %lld right, %lld wrong\n", name, auc.c_str(), static_cast<long long>(decisions.right),
                static_cast<long long>(decisions.wrong));
  }
}

void print_phases(const RunDiagnosis& findings) {
  std::printf("\nCritic loss, entropy of the policy (nats) and mean |Q| by phase of the task\n");
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    std::printf("%-10s %-16s %9s  %12s  %8s  %8s  %10s\n", name, "phase", "steps", "critic loss", "share, %", "entropy",
                "|Q|");
    for (const PhaseFigures& phase : found->phases)
      std::printf("%-10s %-16s %9lld  %12.4g  %8.1f  %8.3f  %10.4g\n", "", phase.phase.c_str(),
                  static_cast<long long>(phase.steps), phase.squared_error, 100 * phase.error_share, phase.entropy,
                  phase.absolute_q);
  }
}

std::string moment_text(const CueReadout& read, const Diagnosis& found) {
  return read.lag ? std::to_string(*read.lag) : found.decisions->phase + " begins";
}

void print_cue(const RunDiagnosis& findings) {
  std::printf("\nCue read from h_t by a linear map, %%, so many steps after it was last seen\n");
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    if (found->cue.empty()) {
      std::printf("%-10s none: a read-out takes %lld episodes and two different cues out of sight\n", name,
                  static_cast<long long>(Diagnosis::kFewestReadOut));
      continue;
    }
    std::printf("%-10s %-16s %9s  %-22s  %s\n", name, "steps", "episodes", "read rightly", "commonest cue");
    for (const CueReadout& read : found->cue)
      std::printf("%-10s %-16s %9lld  %-22s  %5.1f\n", "", moment_text(read, *found).c_str(),
                  static_cast<long long>(read.readout.count),
                  interval_text(read.readout.correct, read.readout.count).c_str(),
                  100.0 * static_cast<double>(read.readout.most_common) / static_cast<double>(read.readout.count));
  }
}

Json fraction_json(std::int64_t count, std::int64_t total) {
  if (total == 0) return nullptr;
  const Interval interval = wilson_interval(count, total);
  return {{"estimate", interval.estimate}, {"interval", {interval.low, interval.high}}};
}

Json diagnosis_json(const Diagnosis& found) {
  Json json = {{"episodes", found.episodes}, {"success", fraction_json(found.solved, found.episodes)}};
  Json& decisions = json["decisions"] = nullptr;
  if (const auto& taken = found.decisions)
    decisions = {{"right", taken->right},
                 {"wrong", taken->wrong},
                 {"decided", fraction_json(taken->right + taken->wrong, found.episodes)},
                 {"right_of_decided", fraction_json(taken->right, taken->right + taken->wrong)},
                 {"q_auc", taken->q_auc ? Json(*taken->q_auc) : Json()}};
  Json& phases = json["phases"] = Json::array();
  for (const PhaseFigures& phase : found.phases)
    phases.push_back({{"phase", phase.phase},
                      {"steps", phase.steps},
                      {"critic_loss", phase.squared_error},
                      {"critic_loss_share", phase.error_share},
                      {"entropy", phase.entropy},
                      {"absolute_q", phase.absolute_q}});
  Json& cue = json["cue"] = Json::array();
  for (const CueReadout& read : found.cue)
    cue.push_back(
        {{"lag", read.lag ? Json(*read.lag) : Json()},
         {"phase_begins", read.lag ? Json() : Json(found.decisions->phase)},
         {"episodes", read.readout.count},
         {"read", fraction_json(read.readout.correct, read.readout.count)},
         {"most_common", static_cast<double>(read.readout.most_common) / static_cast<double>(read.readout.count)}});
  return json;
}

std::string meaning_text(const RunDiagnosis& findings, const TrainedAgent& agent) {
  const TaskInfo info = agent.config.task.info();
  return meaning_of(findings.greedy, findings.sampled, findings.replayed ? &*findings.replayed : nullptr,
                    info.chance_success, info.num_actions());
}

void print_json(const std::string& directory, const DiagnoseOptions& options, const RunDiagnosis& findings,
                const TrainedAgent& agent) {
  const std::optional<double> chance = agent.config.task.info().chance_success;
  Json json = {{"run", directory},
               {"weights", name_of(options.weights)},
               {"environment_steps", findings.weights_steps},
               {"task", agent.config.task.name()},
               {"backbone", agent.config.memory.name()},
               {"chance_success", chance ? Json(*chance) : Json()},
               {"differs", differs_json(agent.elsewhere)},
               {"learner", agent.config.learner.name()}};
  for (const auto& [name, value, source] : findings.judged_by) {
    json[name] = value;
    if (!source.empty()) json[name + "_source"] = source;
  }
  json.update({{"greedy", diagnosis_json(findings.greedy)},
               {"sampled", diagnosis_json(findings.sampled)},
               {"replayed", findings.replayed ? diagnosis_json(*findings.replayed)
                                              : Json::object({{"missing", findings.why_none_replayed}})},
               {"meaning", meaning_text(findings, agent)}});
  std::cout << json_text(json, 2) << std::endl;
}

void print_text(const DiagnoseOptions& options, const RunDiagnosis& findings, const TrainedAgent& agent,
                const Threads& threads) {
  std::printf("%s on %s, %s weights, of step %lld; 95%% intervals in brackets\ncomputed by %s\n",
              agent.config.memory.name().c_str(), agent.config.task.name().c_str(), name_of(options.weights),
              static_cast<long long>(findings.weights_steps), threads.text().c_str());
  for (const OptionDifference& option : agent.elsewhere)
    std::printf("trained with %s %s, diagnosed with %s\n", option.name.c_str(), option.before.c_str(),
                option.now.c_str());
  std::string judged_by;
  for (const auto& [name, value, source] : findings.judged_by)
    judged_by +=
        (judged_by.empty() ? "" : ", ") + name + " " + shown(value) + (source.empty() ? "" : " (" + source + ")");
  std::printf("%s\n", judged_by.c_str());
  print_successes(findings, agent.config);
  print_decisions(findings);
  print_phases(findings);
  print_cue(findings);
  std::printf("\n%s\n", wrapped("What it means: " + meaning_text(findings, agent), 0, kScreenColumns).c_str());
}

}  // namespace

void describe_diagnose(const CommandVisitor& visit) {
  describe_options<DiagnoseOptions>("diagnose", diagnose_syntax(), visit);
}

int run_diagnose(const std::vector<std::string>& arguments) {
  DiagnoseOptions options;
  OptionList own = own_options(options);
  const CommandLine line = parse_command_line(arguments, own, diagnose_syntax());
  if (line.help) {
    print_diagnose_help(own);
    return 0;
  }
  const torch::Device device = use_device(options.device);
  const RunDirectory run = RunDirectory::open(line.positional[0]);
  const Threads threads =
      acting_threads(options.threads, read_config(run.config_file()), evaluation_envs(options.episodes), device);
  use_threads(threads.count);
  const TrainedAgent agent = load_trained_agent(line.positional[0], options.weights, device, line.settings);
  const auto warn = [](const std::string& damage) { std::cerr << "engram: " << damage << std::endl; };
  const RunDiagnosis findings =
      diagnose_run(run, agent, {.episodes = options.episodes, .threads = threads.count}, warn);
  if (options.json)
    print_json(line.positional[0], options, findings, agent);
  else
    print_text(options, findings, agent, threads);
  return 0;
}

}  // namespace engram
