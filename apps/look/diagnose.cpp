// engram diagnose: why a trained agent does not solve a task that asks for memory.
#include <cstdint>
#include <cstdio>
#include <iostream>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/machine/hardware.h"
#include "agents/run/trained/played_weights.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/diagnosis_json.h"
#include "agents/study/diagnosis_meaning.h"
#include "agents/study/run_diagnosis.h"
#include "apps/cli/command_line.h"
#include "apps/cli/commands.h"
#include "apps/cli/screen_table.h"
#include "apps/cli/threads.h"
#include "apps/look/diagnose_report.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/json_text.h"

namespace engram {
namespace {

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
            << wrapped(
                   "- whether its critics tell right decisions from wrong ones, or a critic of states foresees them, "
                   "on fresh and on learnt episodes;",
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

std::string shown(double value) { return formatted("%.4g", value); }

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
  std::printf("%s", findings_text(findings, agent.config.task.info().chance_success).c_str());
  std::printf("\n%s\n", wrapped("What it means: " + meaning_of(findings, agent), 0, kScreenColumns).c_str());
}

}  // namespace

void describe_diagnose(const CommandVisitor& visit) {
  describe_options<DiagnoseOptions>("diagnose", diagnose_syntax(), visit);
}

int run_diagnose(const std::vector<std::string>& arguments) {
  DiagnoseOptions options;
  const auto line = command_line_of(arguments, options, diagnose_syntax(), print_diagnose_help);
  if (!line) return 0;
  const torch::Device device = use_device(options.device);
  const RunDirectory run = RunDirectory::open(line->positional[0]);
  const Threads threads =
      acting_threads(options.threads, read_config(run.config_file()), evaluation_envs(options.episodes), device);
  use_threads(threads.count);
  const TrainedAgent agent = load_trained_agent(line->positional[0], options.weights, device, line->settings);
  const auto warn = [](const std::string& damage) { std::cerr << "engram: " << damage << std::endl; };
  const RunDiagnosis findings =
      diagnose_run(run, agent, {.episodes = options.episodes, .threads = threads.count}, warn);
  if (options.json)
    std::cout << json_text(run_diagnosis_json(line->positional[0], findings, agent), 2) << std::endl;
  else
    print_text(options, findings, agent, threads);
  return 0;
}

}  // namespace engram
