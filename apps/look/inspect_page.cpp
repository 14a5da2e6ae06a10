// The page of one run: that of a report, with what its diagnosis means.
#include <cstdint>
#include <filesystem>
#include <iostream>
#include <ostream>
#include <string>

#include "agents/run/machine/hardware.h"
#include "agents/run/trained/played_weights.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/diagnosis_meaning.h"
#include "agents/study/run_diagnosis.h"
#include "apps/cli/threads.h"
#include "apps/compare/report.h"
#include "apps/look/inspect.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/plain_runs.h"
#include "experiments/report/files.h"

namespace engram {
namespace {

constexpr int kDiagnosedEpisodes = 100;

std::string success_sentence(const RunResult& run) {
  const FinalEvaluation& last = *run.metrics.final_evaluation;
  const Interval& success = last.greedy.success;
  return formatted("%s on %s, seed %llu: success %.1f%% (%.1f to %.1f), return %.4g, of ", run.plan.backbone.c_str(),
                   run.plan.task.c_str(), static_cast<unsigned long long>(run.plan.seed), 100 * success.estimate,
                   100 * success.low, 100 * success.high, last.greedy.mean_return) +
         counted(last.episodes, "episode") + " that training has not seen.";
}

}  // namespace

void write_run_page(const std::filesystem::path& folder, const std::filesystem::path& html) {
  if (html.extension() != ".html") throw UserError("--html is a page to write, .html, not '" + html.string() + "'");
  use_threads(1);
  const Results results = read_plain_runs({folder});
  const TrainedAgent agent = load_trained_agent(folder, WhichWeights::kBest, torch::kCPU);
  const RunDiagnosis findings =
      diagnose_run(RunDirectory::open(folder), agent, {.episodes = kDiagnosedEpisodes},
                   [](const std::string& damage) { std::cerr << "engram: " << damage << "\n"; });
  const std::string page =
      run_page(results, {success_sentence(results.runs.front()), "Diagnosis: " + meaning_of(findings, agent)},
               film_runs(runs_to_film(results)), html, {});
  write_text_file(html, page);
}

}  // namespace engram
