// The figures of a report, and the files that programs read them from.
#include "experiments/report/data.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "agents/study/measured_json.h"
#include "base/text/json_text.h"
#include "experiments/plan/budgets.h"
#include "experiments/plan/plan.h"
#include "experiments/plan/settings_json.h"
#include "experiments/report/answer.h"
#include "experiments/report/published.h"
#include "experiments/report/report.h"
#include "experiments/report/writer.h"
#include "experiments/results/csv.h"
#include "experiments/results/earlier_runs.h"
#include "storage/build_info.h"

namespace engram {
namespace {

constexpr int kCurvePoints = 60;
constexpr int kCurveResamples = 5'000;

Json estimate_json(const Estimate& estimate) {
  Json json = {{"value", estimate.value}, {"interval", nullptr}};
  if (estimate.interval) json["interval"] = {estimate.interval->first, estimate.interval->second};
  return json;
}

Json aggregate_json(const AggregateScores& scores, const ScoreTable& table) {
  Json json = {{"tasks", scores.tasks},   {"methods", Json::object()},   {"comparisons", Json::array()},
               {"cells", Json::object()}, {"left_out", scores.left_out}, {"table", Json::parse(table.to_json())}};
  for (const MethodScores& method : scores.methods) {
    Json& own = json["methods"][method.method];
    own = {{"interquartile_mean", estimate_json(method.interquartile_mean)},
           {"mean", estimate_json(method.mean)},
           {"median", estimate_json(method.median)},
           {"optimality_gap", estimate_json(method.optimality_gap)},
           {"profile", Json::array()}};
    for (const Estimate& estimate : method.profile) own["profile"].push_back(estimate_json(estimate));
  }
  for (const MethodComparison& comparison : scores.comparisons) {
    const auto& difference = comparison.paired_difference;
    json["comparisons"].push_back({{"x", comparison.x},
                                   {"y", comparison.y},
                                   {"probability_of_improvement", estimate_json(comparison.probability_of_improvement)},
                                   {"paired_difference", difference ? estimate_json(*difference) : Json()},
                                   {"pairs", comparison.pairs}});
  }
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    Json& row = json["cells"][table.tasks[task]] = Json::object();
    for (std::size_t method = 0; method < table.methods.size(); ++method)
      row[table.methods[method]] = scores.cells[task][method] ? estimate_json(*scores.cells[task][method]) : Json();
  }
  return json;
}

const char* stage_name(const RunState& state) {
  if (state.running) return "running";
  switch (state.stage) {
    case RunStage::kMissing:
      return "missing";
    case RunStage::kUnfinished:
      return "unfinished";
    case RunStage::kFinished:
      return "finished";
    case RunStage::kFailed:
      return "failed";
  }
  return "";
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

// A row of the table: with a learner where the experiment has some, with tuned settings where it tunes.
Json run_json(const RunResult& run, bool tunes) {
  Json json = {{"task", run.plan.task}, {"backbone", run.plan.backbone}};
  if (!run.plan.learner.empty()) json["learner"] = run.plan.learner;
  json["seed"] = run.plan.seed;
  json["control"] = control_name(run.plan.control);
  json["state"] = stage_name(run.state);
  const bool failed = run.state.stage == RunStage::kFailed;
  json["failure"] = failed ? failure_name(run.state.failure.kind) : "";
  json["reason"] = run.state.failure.reason;
  json["remark"] = run.remark;
  if (tunes) {
    json["try"] = Json();  // of tuning alone
    json["tuned"] = run.plan.tuned ? Json(settings_text(*run.plan.tuned)) : Json();
  }
  for (const ScoreKind& kind : kScoreKinds) json[kind.key] = run.scores ? optional_json(kind.of(*run.scores)) : Json();
  json["mean_return"] = run.scores ? Json(run.scores->mean_return) : Json();
  json["best_return"] = run.scores ? optional_json(run.scores->best_return) : Json();
  json["mmer"] = run.scores ? optional_json(run.scores->mmer) : Json();
  json["environment_steps"] = run.metrics.steps;
  json["updates"] = run.scores && run.metrics.updates == 0 ? Json() : Json(run.metrics.updates);  // not said
  json["episodes_until_learnt"] = run.episodes_until_learnt ? Json(*run.episodes_until_learnt) : Json();
  json["wall_seconds"] = optional_json(run.timings.wall_seconds);
  json["steps_per_second"] = optional_json(run.timings.steps_per_second);
  json["updates_per_second"] = optional_json(run.timings.updates_per_second);
  json["peak_memory_mb"] = optional_json(run.timings.peak_memory_mb);
  json["peak_gpu_memory_mb"] = optional_json(run.timings.peak_gpu_memory_mb);
  for (const BudgetPart& part : kBudgetParts) json[part.name] = run.plan.budget.*part.value;
  json["device"] = run.provenance.device;
  json["engram"] = run.provenance.engram;
  json["commit"] = run.provenance.commit;
  json["evaluations"] = curve_text(run.curve);
  return json;
}

Analysis::RangeCurve range_curve(const Results& results, std::size_t task, std::size_t backbone,
                                 const BootstrapOptions& bootstrap) {
  std::vector<std::vector<double>> greedy, sampled;
  for (std::size_t seed = 0; seed < results.experiment.seeds.size(); ++seed) {
    const RunResult& run = results.run(task, backbone, seed);
    if (!has_whole_range(run)) continue;
    greedy.emplace_back();
    sampled.emplace_back();
    for (const auto& point : run.range) {
      greedy.back().push_back(point->greedy.success.estimate);
      sampled.back().push_back(point->sampled.success.estimate);
    }
  }
  if (greedy.empty()) return {};
  return {static_cast<int>(greedy.size()), mean_curve(greedy, bootstrap), mean_curve(sampled, bootstrap)};
}

std::optional<Analysis::Returns> returns_of(const Results& results, std::size_t task, std::size_t backbone,
                                            const BootstrapOptions& bootstrap) {
  std::vector<std::vector<double>> runs, on_policy;
  for (std::size_t seed = 0; seed < results.experiment.seeds.size(); ++seed) {
    const std::optional<RunScores>& scores = results.run(task, backbone, seed).scores;
    if (!scores || !has_returns(*scores)) continue;
    runs.push_back({scores->mean_return, *scores->best_return});
    if (scores->mmer) on_policy.push_back({*scores->mmer});
  }
  if (runs.empty()) return {};
  const std::vector<Estimate> means = mean_curve(runs, bootstrap);
  Analysis::Returns returns{means[0], means[1]};
  if (!on_policy.empty()) returns.mmer = mean_curve(on_policy, bootstrap).front();
  return returns;
}

Separation separation_in(const Results& results, std::size_t task) {
  TaskRuns runs;
  if (task < results.tasks.size()) runs.chance = results.tasks[task].info.chance_success;
  for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
    std::vector<double> successes = successes_of(results, task, backbone);
    switch (results.run(task, backbone, 0).plan.control) {
      case Control::kNone:
        runs.memories.push_back(std::move(successes));
        break;
      case Control::kMemoryless:
        runs.memoryless = std::move(successes);
        break;
      case Control::kFullState:
      case Control::kFullStateRecurrent:
        runs.shown_all.push_back(std::move(successes));
        break;
    }
  }
  return separation_of(runs);
}

}  // namespace

Analysis analyse(const Results& results, const BootstrapOptions& bootstrap) {
  Analysis analysis;
  std::vector<std::string> apart;
  for (std::size_t task = 0; task < results.experiment.tasks.size(); ++task) {
    const Separation& separation = analysis.separations.emplace_back(separation_in(results, task));
    apart.push_back(separation.tells_apart() == false ? separation.reason() : "");
  }
  for (const ScoreKind& kind : kScoreKinds) {
    const ScoreTable table = results.table(kind);
    const bool any = std::ranges::any_of(table.scores, [](const auto& score) { return score.has_value(); });
    analysis.scores.push_back(any ? aggregate(table, bootstrap, apart) : AggregateScores{});
  }

  analysis.orders = orders_by_learner(results, bootstrap);
  for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
    const BackboneConfig& memory = results.run(0, backbone, 0).plan.config.memory;
    analysis.first_scales.push_back(results.settings_known ? first_scale_of(memory) : std::nullopt);
  }

  BootstrapOptions curve_bootstrap = bootstrap;
  curve_bootstrap.resamples = std::min(bootstrap.resamples, kCurveResamples);
  const Experiment& experiment = results.experiment;
  for (std::size_t task = 0; experiment.range && task < experiment.tasks.size(); ++task) {
    auto& curves = analysis.ranges.emplace_back();
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone)
      curves.push_back(range_curve(results, task, backbone, curve_bootstrap));
  }
  for (std::size_t task = 0; task < experiment.tasks.size(); ++task) {
    auto& returns = analysis.returns.emplace_back();
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone)
      returns.push_back(returns_of(results, task, backbone, bootstrap));
    auto& task_curves = analysis.curves.emplace_back();
    for (std::size_t backbone = 0; backbone < experiment.backbones.size(); ++backbone) {
      const Config& config = results.run(task, backbone, 0).plan.config;
      const auto steps = static_cast<double>(config.run.steps);
      const double evaluations = steps / static_cast<double>(config.evaluation.every_steps);
      const int points = std::clamp(static_cast<int>(std::min(evaluations, 1e6)), 1, kCurvePoints);
      std::vector<std::vector<double>> curves;
      for (std::size_t seed = 0; seed < experiment.seeds.size(); ++seed) {
        const RunResult& run = results.run(task, backbone, seed);
        if (!has_curve(run)) continue;
        auto& curve = curves.emplace_back();
        for (int i = 1; i <= points; ++i) curve.push_back(height_at(run.curve, steps * i / points));
      }
      auto& shown = task_curves.emplace_back();
      // Of few of the runs it would not be theirs.
      if (curves.empty() || 2 * curves.size() < finished_runs(results, task, backbone)) continue;
      const std::vector<Estimate> mean = mean_curve(curves, curve_bootstrap);
      for (int i = 1; i <= points; ++i) shown.emplace_back(steps * i / points, mean[static_cast<std::size_t>(i - 1)]);
    }
  }
  return analysis;
}

namespace {

Json ranges_json(const Results& results, const Analysis& analysis) {
  const EvaluationRange& range = *results.experiment.range;
  Json json = {{"key", range.key}, {"values", Json::array()}, {"curves", Json::array()}, {"runs", Json::array()}};
  for (const EvaluationRange::Value& value : range.values) json["values"].push_back(value.number);
  for (std::size_t task = 0; task < analysis.ranges.size(); ++task) {
    for (std::size_t backbone = 0; backbone < analysis.ranges[task].size(); ++backbone) {
      const Analysis::RangeCurve& curve = analysis.ranges[task][backbone];
      Json entry = {{"task", results.tasks[task].label},
                    {"backbone", results.experiment.backbones[backbone].label},
                    {"runs", curve.runs},
                    {"greedy", Json::array()},
                    {"sampled", Json::array()}};
      for (const Estimate& estimate : curve.greedy) entry["greedy"].push_back(estimate_json(estimate));
      for (const Estimate& estimate : curve.sampled) entry["sampled"].push_back(estimate_json(estimate));
      json["curves"].push_back(std::move(entry));
    }
  }
  for (const RunResult& run : results.runs) {
    Json entry = {
        {"task", run.plan.task}, {"backbone", run.plan.backbone}, {"seed", run.plan.seed}, {"points", Json::array()}};
    for (const auto& point : run.range) entry["points"].push_back(point ? point_json(*point) : Json());
    json["runs"].push_back(std::move(entry));
  }
  return json;
}

// Of each task and backbone the mean return of the final evaluation, the best mean return and MMER, or null.
Json returns_json(const Results& results, const Analysis& analysis) {
  Json json = Json::object();
  for (std::size_t task = 0; task < analysis.returns.size(); ++task) {
    Json& row = json[results.tasks[task].label] = Json::object();
    for (std::size_t backbone = 0; backbone < analysis.returns[task].size(); ++backbone) {
      Json& cell = row[results.experiment.backbones[backbone].label];
      if (const auto& returns = analysis.returns[task][backbone])
        cell = {{"final", estimate_json(returns->final)},
                {"best", estimate_json(returns->best)},
                {"mmer", returns->mmer ? estimate_json(*returns->mmer) : Json()}};
    }
  }
  return json;
}

Json orders_json(const std::vector<LearnerOrder>& orders) {
  Json json = Json::array();
  for (const LearnerOrder& order : orders)
    json.push_back({{"learners", {order.x, order.y}},
                    {"tasks", order.tasks},
                    {"memories", order.memories},
                    {"fewest_runs", order.fewest_runs},
                    {"kendall_tau_b", order.tau ? estimate_json(*order.tau) : Json()}});
  return json;
}

// What was chosen; the tries stand in the CSV.
Json tuning_json(const std::vector<TuningResult>& tuning) {
  Json json = Json::array();
  for (const auto& [plan, record] : tuning) {
    json.push_back({{"task", plan.task},
                    {"learner", plan.learner.empty() ? Json() : Json(plan.learner)},
                    {"backbone", plan.backbone},
                    {"tries", record.rungs.empty() ? 1 : record.rungs.front().tries.size()},
                    {"rungs", record.rungs.size()},
                    {"chosen", record.chosen ? settings_json(*record.chosen) : Json()}});
  }
  return json;
}

// Whether the task tells memories apart: true, false, or null where it is not known; and why.
Json separation_json(const Separation& separation) {
  const auto flag = [](const std::optional<bool>& value) { return value ? Json(*value) : Json(); };
  const auto& icc = separation.intraclass_correlation;
  return {{"tells_apart", flag(separation.tells_apart())},
          {"can_be_done", flag(separation.can_be_done)},
          {"needs_memory", flag(separation.needs_memory)},
          {"memories_differ", flag(separation.memories_differ)},
          {"intraclass_correlation", icc ? estimate_json(*icc) : Json()},
          {"reason", separation.reason()}};
}

// MMER of each task and backbone that something was published of.
Json published_json(const Results& results) {
  Json json = Json::array();
  for (const BesidePublished& cell : beside_published(results))
    json.push_back({{"task", results.tasks[cell.task].label},
                    {"backbone", results.experiment.backbones[cell.backbone].label},
                    {"runs", cell.runs},
                    {"mmer", cell.mean},
                    {"deviation", cell.deviation},
                    {"published_mmer", cell.published.mean},
                    {"published_deviation", cell.published.deviation},
                    {"differs", cell.differs()}});
  return json;
}

}  // namespace

Json report_data(const Results& results, const Analysis& analysis, const BootstrapOptions& bootstrap) {
  const BuildInfo& build = build_info();
  Json json = {{"question", results.experiment.question},
               {"answer", answer_of(results, analysis)},
               {"engram", build.version},
               {"commit", build.commit},
               {"resamples", bootstrap.resamples},
               {"bootstrap_seed", bootstrap.seed},
               {"tasks", Json::array()},
               {"backbones", Json::array()},
               {"runs", Json::array()},
               {"scores", Json::object()},
               {"curves", Json::array()},
               {"experiment", results.of_comparison() ? Json(results.planned.to_ini()) : Json()}};
  for (std::size_t task = 0; task < results.tasks.size(); ++task) {
    const TaskFacts& facts = results.tasks[task];
    Json entry = {{"label", facts.label},
                  {"name", facts.info.name},
                  {"max_episode_steps", facts.info.max_episode_steps},
                  {"separation", separation_json(analysis.separations[task])},
                  {"settings", settings_json(results.experiment.tasks[task].settings)},
                  {"chance_success", optional_json(facts.info.chance_success)},
                  {"random_success", nullptr},
                  {"random_success_interval", nullptr},
                  {"random_return", nullptr}};
    if (const RandomPlay& random = facts.random; random.episodes > 0) {
      entry["random_success"] = random.success.estimate;
      entry["random_success_interval"] = {random.success.low, random.success.high};
      entry["random_return"] = random.mean_return.estimate;
    }
    if (results.sweep) entry[results.sweep->key] = results.sweep->values[task];
    json["tasks"].push_back(std::move(entry));
  }
  for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
    const ExperimentEntry& entry = results.experiment.backbones[backbone];
    const PlannedRun& plan = results.run(0, backbone, 0).plan;
    json["backbones"].push_back({{"label", entry.label},
                                 {"memory", plan.backbone},
                                 {"learner", plan.learner.empty() ? Json() : Json(plan.learner)},
                                 {"control", control_name(plan.control)},
                                 {"first_scale", optional_json(analysis.first_scales[backbone])},
                                 {"settings", settings_json(entry.settings)}});
  }
  const std::vector<ExperimentEntry>& backbones = results.experiment.backbones;
  for (std::size_t i = 0; i < results.runs.size(); ++i) {
    Json run = run_json(results.runs[i], results.planned.tune.has_value());
    run["backbone"] = backbones[i / results.experiment.seeds.size() % backbones.size()].label;
    json["runs"].push_back(std::move(run));
  }
  for (std::size_t kind = 0; kind < kScoreKinds.size(); ++kind)
    if (!analysis.scores[kind].cells.empty()) {
      Json& scores = json["scores"][kScoreKinds[kind].key];
      scores = aggregate_json(analysis.scores[kind], results.table(kScoreKinds[kind]));
      scores["of_diverged"] = optional_json(kScoreKinds[kind].of_diverged);
    }
  if (results.sweep) json["sweep"] = {{"key", results.sweep->key}, {"values", results.sweep->values}};
  json["returns"] = returns_json(results, analysis);
  if (!analysis.orders.empty()) json["learner_orders"] = orders_json(analysis.orders);
  if (!results.tuning.empty()) json["tuning"] = tuning_json(results.tuning);
  if (Json published = published_json(results); !published.empty()) json["published"] = std::move(published);
  if (results.experiment.range) json["range"] = ranges_json(results, analysis);
  for (std::size_t task = 0; task < analysis.curves.size(); ++task) {
    for (std::size_t backbone = 0; backbone < analysis.curves[task].size(); ++backbone) {
      Json curve = {{"task", results.tasks[task].label},
                    {"backbone", results.experiment.backbones[backbone].label},
                    {"points", Json::array()}};
      for (const auto& [steps, estimate] : analysis.curves[task][backbone]) {
        Json point = estimate_json(estimate);
        point["environment_steps"] = steps;
        curve["points"].push_back(std::move(point));
      }
      json["curves"].push_back(std::move(curve));
    }
  }
  return json;
}

std::string data_text(const Json& data) { return json_text(data, 1) + "\n"; }

std::string report_json(const Results& results, const Analysis& analysis, const BootstrapOptions& bootstrap) {
  return data_text(report_data(results, analysis, bootstrap));
}

Json scores_data(const ScoreTable& table, const AggregateScores& scores) { return aggregate_json(scores, table); }

std::string scores_json(const ScoreTable& table, const AggregateScores& scores) {
  return data_text(scores_data(table, scores));
}

namespace {

std::string csv_record(const Json& row) {
  std::string record;
  for (const auto& [key, value] : row.items()) {
    const std::string field =
        value.is_null()     ? ""
        : value.is_string() ? csv_field(value.get<std::string>())
        : value.is_number_float()
            ? (std::isfinite(value.get<double>()) ? number_text(value.get<double>()) : std::string())
            : json_text(value);
    record += (&value == &row.front() ? "" : ",") + field;
  }
  return record + "\n";
}

// A try of tuning as a row of the same columns, in the state "tuning": no run of the comparison. What it reached is
// that of the last rung that it took part in.
Json try_json(const RunResult& like, const TuneRecord& record, const TriedSettings& tried, const TuneRung& rung,
              std::size_t number_of_rung, const TriedSettings::Run* run, bool went_on) {
  Json row = run_json(like, true);
  for (auto& [key, value] : row.items())
    if (key != "task" && key != "backbone" && key != "learner" && key != "control") value = Json();
  row["state"] = "tuning";
  row["seed"] = run != nullptr ? Json(run->seed) : Json();
  row["failure"] = tried.failure.empty() ? "" : failure_name(FailureKind::kDiverged);
  row["reason"] = tried.failure;
  row["try"] = tried.number;
  row["tuned"] = settings_text(tried.settings);
  const bool chosen = record.chosen && went_on;
  row["remark"] = std::string(chosen    ? "chosen"
                              : went_on ? "goes on"
                                        : "dropped") +
                  " after rung " + std::to_string(number_of_rung);
  row["environment_steps"] = rung.steps;
  if (run != nullptr) {
    row["final_success"] = run->success;
    row["mean_return"] = run->mean_return ? Json(*run->mean_return) : Json();
    row["area_under_curve"] = run->area;
  }
  return row;
}

std::string csv_of_tries(const RunResult& like, const TuneRecord& record) {
  std::string text;
  for (std::size_t i = 0; i < record.rungs.size(); ++i) {
    const TuneRung& rung = record.rungs[i];
    for (std::size_t place = record.first_ended(i); place < rung.tries.size(); ++place) {
      const TriedSettings& tried = rung.tries[place];
      const bool went_on = place < rung.kept;
      for (const TriedSettings::Run& run : tried.runs)
        text += csv_record(try_json(like, record, tried, rung, i + 1, &run, went_on));
      if (tried.runs.empty()) text += csv_record(try_json(like, record, tried, rung, i + 1, nullptr, went_on));
    }
  }
  return text;
}

}  // namespace

std::string report_csv(const Results& results) {
  std::string text;
  const bool tunes = results.planned.tune.has_value();
  for (const RunResult& run : results.runs) {
    const Json json = run_json(run, tunes);
    if (text.empty()) {
      for (const auto& [key, value] : json.items()) text += (text.empty() ? "" : ",") + key;
      text += "\n";
    }
    text += csv_record(json);
  }
  for (const TuningResult& tuning : results.tuning) {
    const auto like =
        std::ranges::find_if(results.runs, [&](const RunResult& run) { return run.plan.name() == tuning.plan.name(); });
    text += csv_of_tries(*like, tuning.record);
  }
  return text;
}

}  // namespace engram
