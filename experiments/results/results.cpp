#include "experiments/results/results.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <system_error>

#include "base/error.h"
#include "base/text/words.h"
#include "experiments/report/text.h"
#include "experiments/results/earlier_runs.h"
#include "experiments/statistics/aggregate.h"
#include "storage/run/run_directory.h"

namespace engram {
namespace {

namespace fs = std::filesystem;
constexpr std::size_t kMaxAboutBytes = 1 << 20;

std::string text_entry(const nlohmann::json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return "";
  if (found->is_number_integer()) return std::to_string(found->get<std::int64_t>());
  return found->is_string() ? one_line(found->get<std::string>()) : "";
}

// On the CPU there is one road.
std::string roads_entry(const nlohmann::json& json) {
  const auto found = json.find("roads");
  if (text_entry(json, "device") == "cpu" || found == json.end() || !found->is_array()) return "";
  std::string text;
  for (const nlohmann::json& road : *found)
    if (road.is_object())
      text += (text.empty() ? "" : "; ") + text_entry(road, "part") + ": " + text_entry(road, "road");
  return text;
}

Provenance read_provenance(const fs::path& file) {
  std::error_code error;
  if (!fs::is_regular_file(file, error) || fs::file_size(file, error) > kMaxAboutBytes || error) return {};
  std::ifstream stream(file, std::ios::binary);
  const nlohmann::json json =
      nlohmann::json::parse(std::string{std::istreambuf_iterator<char>(stream), {}}, nullptr, false);
  if (!json.is_object()) return {};
  return {text_entry(json, "engram"),     text_entry(json, "commit"),
          text_entry(json, "build_type"), text_entry(json, "compiler"),
          text_entry(json, "libtorch"),   text_entry(json, "device"),
          text_entry(json, "cpu_cores"),  roads_entry(json)};
}

// Leaves out what does not go on from the evaluation before it.
std::vector<std::pair<double, double>> curve_of(const MetricsSummary& metrics) {
  std::vector<std::pair<double, double>> curve;
  for (const EvaluationSummary& evaluation : metrics.evaluations) {
    const auto steps = static_cast<double>(evaluation.environment_steps);
    if (curve.empty() || curve.back().first < steps) curve.emplace_back(steps, evaluation.greedy.success);
  }
  return curve;
}

void append(std::string& text, const std::string& remark) { text += (text.empty() ? "" : "; ") + remark; }

std::string remark_on(const RunResult& run) {
  std::string remark;
  const auto steps = static_cast<double>(run.plan.config.run.steps);
  const double taken = std::max(run.curve.back().first, static_cast<double>(run.metrics.steps));
  const double goal = run.plan.config.evaluation.stop_at_success;
  const bool solved = goal > 0 && run.curve.back().second >= goal;
  if (taken < 0.999 * steps && !solved)
    append(remark, "ended by the clock after " + std::to_string(std::lround(100 * taken / steps)) + "% of its steps");
  if (run.metrics.damaged_rows > 0)
    append(remark, counted(run.metrics.damaged_rows, "line") + " of metrics.jsonl passed over: no rows of metrics");
  if (run.metrics.skipped_updates > 0)
    append(remark, counted(run.metrics.skipped_updates, "update") + " skipped: not finite");
  return remark;
}

void read_range(RunResult& run, const FinalEvaluation& last) {
  run.range.resize(run.plan.range->values.size());
  try {
    run.range = points_of_run(run.plan.folder, *run.plan.range, last);
  } catch (const UserError& error) {
    append(run.remark, error.what());
  }
  if (!std::ranges::all_of(run.range, [](const auto& point) { return point.has_value(); }))
    append(run.remark, "lacks evaluations at " + run.plan.range->text());
}

std::optional<std::int64_t> episodes_until_learnt(const std::vector<EvaluationSummary>& evaluations) {
  const auto learnt = std::ranges::find_if(
      evaluations, [](const EvaluationSummary& evaluation) { return evaluation.greedy.success >= kLearntSuccess; });
  return learnt == evaluations.end() ? std::nullopt : learnt->collected_episodes;
}

std::optional<double> best_return(const std::vector<EvaluationSummary>& evaluations) {
  std::optional<double> best;
  for (const EvaluationSummary& evaluation : evaluations) {
    const double mean = evaluation.greedy.mean_return;
    if (std::isfinite(mean) && (!best || mean > *best)) best = mean;
  }
  return best;
}

}  // namespace

bool has_returns(const RunScores& scores) { return std::isfinite(scores.mean_return) && scores.best_return; }

std::optional<double> RunResult::score(const ScoreKind& kind) const {
  if (scores) return kind.of(*scores);
  return state.diverged() ? kind.of_diverged : std::nullopt;
}

RunResult RunResult::missing(PlannedRun plan) {
  return {.plan = std::move(plan),
          .state = {},
          .metrics = {},
          .timings = {},
          .provenance = {},
          .curve = {},
          .episodes_until_learnt = {},
          .scores = {},
          .range = {},
          .remark = ""};
}

RunResult read_run(PlannedRun plan) {
  RunResult run = RunResult::missing(std::move(plan));
  run.state = read_run_state(run.plan);
  if (!RunDirectory::is_run(run.plan.folder)) return run;
  const RunDirectory directory = RunDirectory::open(run.plan.folder);
  run.metrics = summarize_metrics(directory.metrics_file());
  run.timings = summarize_timings(directory.timings_file());
  run.provenance = read_provenance(directory.path() / "about.json");
  run.curve = curve_of(run.metrics);
  run.episodes_until_learnt = episodes_until_learnt(run.metrics.evaluations);
  if (!run.state.trained) return run;
  if (run.curve.empty()) {
    run.remark = "its metrics.jsonl has no evaluation";
    return run;
  }
  const FinalEvaluation& last = *run.metrics.final_evaluation;
  run.scores = RunScores{last.greedy.success.estimate,
                         last.sampled ? std::optional(last.sampled->success.estimate) : std::nullopt,
                         run.metrics.last_evaluation->greedy.success,
                         run.metrics.best_evaluation->greedy.success,
                         area_under_curve(run.curve, static_cast<double>(run.plan.config.run.steps)),
                         last.greedy.mean_return,
                         last.greedy.decisions,
                         best_return(run.metrics.evaluations),
                         run.metrics.mmer};
  run.remark = remark_on(run);
  if (run.plan.range) read_range(run, last);
  return run;
}

namespace {

std::optional<double> number_in(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  return value;
}

std::map<std::string, std::string> task_settings(const PlannedRun& run) {
  std::map<std::string, std::string> settings = {{"task.name", run.config.task.name()}};
  for (const OptionValue& option : run.config.task.values()) settings[option.name] = option.text;
  return settings;
}

std::optional<Sweep> find_sweep(const Results& results) {
  if (results.tasks.size() < 2) return {};
  std::vector<std::map<std::string, std::string>> settings;
  for (std::size_t task = 0; task < results.tasks.size(); ++task)
    settings.push_back(task_settings(results.run(task, 0, 0).plan));
  std::string key;
  for (const auto& entry : settings[0]) {
    const auto same = [&](const auto& other) {
      const auto found = other.find(entry.first);
      return found != other.end() && found->second == entry.second;
    };
    if (std::all_of(settings.begin(), settings.end(), same)) continue;
    if (!key.empty()) return {};
    key = entry.first;
  }
  Sweep sweep{key, {}};
  for (const auto& task : settings) {
    const auto found = task.find(key);
    const std::optional<double> value = found == task.end() ? std::nullopt : number_in(found->second);
    if (!value || std::count(sweep.values.begin(), sweep.values.end(), *value) > 0) return {};
    sweep.values.push_back(*value);
  }
  return sweep;
}

}  // namespace

const std::vector<ScoreKind> kScoreKinds = {
    {"final success", "final_success",
     "the weights of the best evaluation on evaluation.final_episodes new episodes, which did not choose them, "
     "taking the most probable actions",
     [](const RunScores& scores) { return std::optional(scores.final_success); }},
    {"best evaluation", "best_evaluation",
     "the highest success of any evaluation during training; what is selected as the highest is higher than it would "
     "be on new episodes",
     [](const RunScores& scores) { return scores.best_evaluation; }},
    {"last evaluation", "last_evaluation", "the evaluation of the weights at the end of training",
     [](const RunScores& scores) { return scores.last_evaluation; }},
    {"area under the curve", "area_under_curve",
     "mean success of the evaluations over the planned environment steps, straight between evaluations, level before "
     "the first and behind the last: a run that ends early because it has reached its goal keeps its last success",
     [](const RunScores& scores) { return scores.area; }},
    {"decided", "decided",
     "the fraction of the episodes of final success in which the agent takes the task's decision, rightly or wrongly",
     [](const RunScores& scores) { return scores.decisions ? std::optional(scores.decisions->decided) : std::nullopt; },
     /*of_diverged=*/{}},
    {"right of decided", "right_of_decided",
     "how many of the decided episodes are right, of runs in which any is decided: near chance, the agent decides and "
     "does not know",
     [](const RunScores& scores) { return scores.decisions ? scores.decisions->right : std::nullopt; },
     /*of_diverged=*/{}},
    {"final success of sampled actions", "sampled_success",
     "the same weights and episodes as in final success, with actions drawn from the policy instead of the most "
     "probable ones",
     [](const RunScores& scores) { return scores.sampled_success; }},
};

std::size_t Results::number_of_runs() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      runs, [&](const RunResult& run) { return settings_known ? !run.plan.folder.empty() : run.counts(); }));
}

std::size_t Results::diverged_runs() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(runs, [](const RunResult& run) { return run.state.diverged(); }));
}

ScoreTable Results::table(const ScoreKind& kind) const {
  std::vector<std::string> task_labels, methods;
  for (const ExperimentEntry& task : experiment.tasks) task_labels.push_back(task.label);
  for (const ExperimentEntry& backbone : experiment.backbones) methods.push_back(backbone.label);
  ScoreTable scores(kind.name, "fraction of episodes", task_labels, methods, experiment.seeds);
  const auto finished = [](const RunResult& run) { return run.scores.has_value(); };
  const auto measured = [&](const RunResult& run) { return run.scores && kind.of(*run.scores); };
  if (std::ranges::any_of(runs, finished) && std::ranges::none_of(runs, measured)) return scores;
  for (std::size_t i = 0; i < runs.size(); ++i) scores.scores[i] = runs[i].score(kind);
  return scores;
}

std::string progress_text(const PlannedRun& run, std::int64_t steps) {
  return count_with_commas(steps) + " of " + count_with_commas(run.config.run.steps) + " steps";
}

namespace {

// Throws UserError, since no run counts.
[[noreturn]] void refuse_unfinished(const Results& results) {
  const auto runs = std::ranges::count_if(results.runs, [](const RunResult& run) { return !run.plan.folder.empty(); });
  const std::string of = results.of_comparison() ? "no run of '" + results.folder.string() + "'" : "none of the runs";
  std::vector<std::string> running;
  for (const RunResult& run : results.runs)
    if (run.state.running) running.push_back(run.plan.name() + ", " + progress_text(run.plan, run.metrics.steps));
  const std::string begin = of + " is finished yet (of " + std::to_string(runs);
  if (!running.empty()) throw UserError(begin + "; running: " + joined(running, "; ") + "): ask again once one is");
  throw UserError(begin + "): go on with " +
                  (results.of_comparison() ? shell_command({"engram", "compare", "--run", results.folder.string()})
                                           : "engram train --resume DIR"));
}

}  // namespace

void add_facts(Results& results) {
  if (std::ranges::none_of(results.runs, &RunResult::counts)) refuse_unfinished(results);
  for (std::size_t task = 0; task < results.experiment.tasks.size(); ++task) {
    const Config& config = results.run(task, 0, 0).plan.config;
    results.tasks.push_back({results.experiment.tasks[task].label, config.task.info(), play_at_random(config.task)});
  }
  results.sweep = find_sweep(results);
}

Results read_results(const fs::path& folder) {
  Results results{.folder = folder, .experiment = {}, .runs = {}, .tasks = {}, .sweep = {}, .notes = {}};
  results.planned = Experiment::read(folder);
  results.experiment = results.planned.by_learner();
  std::vector<PlannedRun> plan = plan_runs(results.planned, folder);
  if (plan.empty()) throw UserError("the comparison '" + folder.string() + "' has no runs");
  const EarlierRuns earlier = EarlierRuns::of(folder);
  std::int64_t known = 0, without_curve = 0;
  for (PlannedRun& planned : plan) {
    RunResult& run = results.runs.emplace_back(read_run(std::move(planned)));
    if (!take_earlier(run, earlier)) continue;
    ++known;
    without_curve += run.scores && run.curve.empty() ? 1 : 0;
  }
  if (known > 0)
    results.notes.push_back(count_with_commas(known) + " of the runs " + (known == 1 ? "is a row" : "are rows") +
                            " of " + EarlierRuns::file_of(folder).filename().string() + ", an earlier report's table" +
                            (without_curve == 0
                                 ? "."
                                 : "; " + count_with_commas(without_curve) + " of them " +
                                       (without_curve == 1 ? "has" : "have") + " no evaluations there, and no curve."));
  if (results.planned.tune)
    for (const RunResult& run : results.runs)
      if (run.plan.seed == results.planned.seeds.front())
        results.tuning.push_back({run.plan, read_tune_record(record_file(tuning_folder(folder), run.plan.place()))});
  add_facts(results);
  return results;
}

}  // namespace engram
