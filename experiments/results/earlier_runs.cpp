#include "experiments/results/earlier_runs.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "experiments/results/csv.h"
#include "storage/run/run_failure.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

// A record by the names of its columns.
class Row {
 public:
  Row(const std::map<std::string, std::size_t>& columns, std::vector<std::string> fields, std::string where)
      : columns_(columns), fields_(std::move(fields)), where_(std::move(where)) {}

  std::string text(const std::string& column) const {
    const auto found = columns_.find(column);
    return found == columns_.end() ? "" : one_line(fields_[found->second]);
  }
  // Nothing where the field is empty, or there is no such column.
  template <class T>
  std::optional<T> optional(const std::string& column, T lowest) const {
    const std::string field = text(column);
    if (field.empty()) return {};
    T value{};
    if (!parse_whole(field, value) || !(value >= lowest) || !(value <= std::numeric_limits<T>::max())) fail(column);
    return value;
  }
  template <class T>
  T number(const std::string& column, T lowest) const {
    const std::optional<T> value = optional<T>(column, lowest);
    if (!value) fail(column);
    return *value;
  }
  std::optional<double> fraction(const std::string& column) const {
    const std::optional<double> value = optional<double>(column, 0);
    if (value > 1) fail(column);
    return value;
  }
  double needed_fraction(const std::string& column) const {
    const std::optional<double> value = fraction(column);
    if (!value) fail(column);
    return *value;
  }
  [[noreturn]] void fail(const std::string& column) const {
    throw UserError(where_ + " has '" + text(column) + "' for " + column);
  }

 private:
  const std::map<std::string, std::size_t>& columns_;
  std::vector<std::string> fields_;
  std::string where_;
};

std::vector<std::pair<double, double>> curve_of(const Row& row) {
  const std::string column = "evaluations", text = row.text(column);
  std::vector<std::pair<double, double>> curve;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size()), colon = text.find(':', begin);
    double steps = 0, success = 0;
    if (colon >= end || !parse_whole(std::string_view(text).substr(begin, colon - begin), steps) ||
        !parse_whole(std::string_view(text).substr(colon + 1, end - colon - 1), success) ||
        !(steps > (curve.empty() ? 0 : curve.back().first)) || !std::isfinite(steps) || !(success >= 0 && success <= 1))
      row.fail(column);
    curve.emplace_back(steps, success);
    begin = end + 1;
  }
  return curve;
}

Control control_in(const Row& row) {
  for (const Control control :
       {Control::kNone, Control::kMemoryless, Control::kFullState, Control::kFullStateRecurrent})
    if (row.text("control") == control_name(control)) return control;
  row.fail("control");
}

RunScores scores_in(const Row& row) {
  constexpr double kLowest = std::numeric_limits<double>::lowest();
  RunScores scores{
      .final_success = row.needed_fraction("final_success"),
      .sampled_success = row.fraction("sampled_success"),
      .last_evaluation = row.fraction("last_evaluation"),
      .best_evaluation = row.fraction("best_evaluation"),
      .area = row.fraction("area_under_curve"),
      // A mean that was not finite is an empty field.
      .mean_return = row.optional<double>("mean_return", kLowest).value_or(std::numeric_limits<double>::quiet_NaN()),
      .best_return = row.optional<double>("best_return", kLowest),
      .mmer = row.optional<double>("mmer", kLowest)};
  if (const auto decided = row.fraction("decided"))
    scores.decisions = DecisionRates{*decided, row.fraction("right_of_decided")};
  return scores;
}

bool has_finished(const Row& row) { return row.text("state") == "finished" && !row.text("final_success").empty(); }

// With a final success, it is evaluations of what was trained that have.
bool has_diverged(const Row& row) {
  return row.text("state") == "failed" && row.text("failure") == failure_name(FailureKind::kDiverged) &&
         row.text("final_success").empty();
}

// Of a row that has finished or diverged.
RunResult result_in(const Row& row) {
  PlannedRun plan;
  plan.task = row.text("task");
  plan.backbone = row.text("backbone");
  plan.learner = row.text("learner");  // only tables of experiments with learners have the column
  plan.seed = row.number<std::uint64_t>("seed", 0);
  plan.control = control_in(row);
  for (const BudgetPart& part : kBudgetParts) plan.budget.*part.value = row.number<std::int64_t>(part.name, 0);
  RunResult run = RunResult::missing(std::move(plan));
  run.state.trained = has_finished(row);
  if (run.state.trained) {
    run.state.stage = RunStage::kFinished;
    run.scores = scores_in(row);
  } else {
    run.state.stage = RunStage::kFailed;
    run.state.failure = {FailureKind::kDiverged, row.text("reason")};
  }
  run.metrics.steps = row.number<std::int64_t>("environment_steps", 0);
  run.metrics.updates = row.optional<std::int64_t>("updates", 0).value_or(0);
  run.timings = {.wall_seconds = row.optional<double>("wall_seconds", 0),
                 .steps_per_second = row.optional<double>("steps_per_second", 0),
                 .updates_per_second = row.optional<double>("updates_per_second", 0),
                 .peak_memory_mb = row.optional<double>("peak_memory_mb", 0),
                 .peak_gpu_memory_mb = row.optional<double>("peak_gpu_memory_mb", 0)};
  run.provenance.engram = row.text("engram");
  run.provenance.commit = row.text("commit");
  run.provenance.device = row.text("device");
  run.curve = curve_of(row);
  run.episodes_until_learnt = row.optional<std::int64_t>("episodes_until_learnt", 0);
  run.remark = row.text("remark");
  return run;
}

EarlierTry try_in(const Row& row) {
  EarlierTry found{.number = row.number<int>("try", 1),
                   .settings = row.text("tuned"),
                   .failure = row.text("reason"),
                   .steps = row.number<std::int64_t>("environment_steps", 0)};
  const std::string remark = row.text("remark");
  constexpr std::string_view kAfter = " after rung ";
  const std::size_t after = remark.find(kAfter);
  if (after == std::string::npos || !parse_whole(std::string_view(remark).substr(after + kAfter.size()), found.rung) ||
      found.rung < 1)
    row.fail("remark");
  found.chosen = remark.starts_with("chosen ");
  if (const auto seed = row.optional<std::uint64_t>("seed", 0))
    found.runs.push_back({*seed, row.needed_fraction("final_success"),
                          row.optional<double>("mean_return", std::numeric_limits<double>::lowest()),
                          row.needed_fraction("area_under_curve")});
  return found;
}

}  // namespace

fs::path EarlierRuns::file_of(const fs::path& directory) { return directory / "earlier.csv"; }

EarlierRuns EarlierRuns::of(const fs::path& directory) {
  const fs::path file = file_of(directory);
  std::error_code error;
  return fs::exists(fs::symlink_status(file, error)) ? parse(read_table_file(file), file) : EarlierRuns{};
}

EarlierRuns EarlierRuns::parse(const std::string& text, const fs::path& file) {
  EarlierRuns earlier;
  earlier.where_ = "'" + file.string() + "'";
  std::map<std::string, std::size_t> columns;
  std::size_t count = 0, position = 0;
  for (std::size_t number = 1; position < text.size(); ++number) {
    const std::string record = earlier.where_ + ", record " + std::to_string(number);
    std::vector<std::string> fields = read_csv_record(text, position, record);
    if (number == 1) {
      count = fields.size();
      for (std::size_t i = 0; i < count; ++i)
        if (!columns.emplace(fields[i], i).second) throw UserError(record + " has '" + fields[i] + "' twice");
      for (const char* needed : {"task", "backbone", "seed", "state", "final_success"})
        if (!columns.contains(needed))
          throw UserError(earlier.where_ + " is no report's table of runs: it has no column " + needed);
      continue;
    }
    if (fields.size() != count)
      throw UserError(record + " has " + std::to_string(fields.size()) + " fields instead of " + std::to_string(count));
    const Row row(columns, std::move(fields), record);
    if (row.text("state") == "tuning") {
      std::vector<EarlierTry>& tries =
          earlier.tries_[place_of(row.text("task"), row.text("learner"), row.text("backbone"))];
      EarlierTry found = try_in(row);
      // A row for each of its seeds, one behind the other.
      if (!tries.empty() && tries.back().number == found.number && tries.back().settings == found.settings)
        tries.back().runs.insert(tries.back().runs.end(), found.runs.begin(), found.runs.end());
      else
        tries.push_back(std::move(found));
      continue;
    }
    if (!has_finished(row) && !has_diverged(row)) continue;
    RunResult run = result_in(row);
    const std::string name = run.plan.name();
    if (const std::string tuned = row.text("tuned"); !tuned.empty()) earlier.tuned_[name] = tuned;
    if (!earlier.runs_.emplace(name, std::move(run)).second) throw UserError(record + " is run " + name + " again");
    earlier.order_.push_back(name);
  }
  return earlier;
}

std::vector<RunResult> EarlierRuns::all() const {
  std::vector<RunResult> runs;
  for (const std::string& name : order_) runs.push_back(runs_.at(name));
  return runs;
}

std::optional<RunResult> EarlierRuns::find(const PlannedRun& plan) const {
  const auto found = runs_.find(plan.name());
  if (found == runs_.end()) return {};
  const PlannedRun& earlier = found->second.plan;
  const auto differs = [&](const std::string& what, const std::string& theirs, const std::string& planned) {
    return UserError(where_ + " has run " + plan.name() + " with " + what + " " + theirs + ", planned is " + planned +
                     ": it is of another comparison");
  };
  if (earlier.control != plan.control)
    throw differs("control", control_name(earlier.control), control_name(plan.control));
  for (const BudgetPart& part : kBudgetParts)
    if (const auto theirs = earlier.budget.*part.value, planned = plan.budget.*part.value; theirs != planned)
      throw differs(part.name, std::to_string(theirs), std::to_string(planned));
  if (const auto tuned = tuned_.find(plan.name()); tuned != tuned_.end() && plan.tuned)
    if (const std::string planned = settings_text(*plan.tuned); planned != tuned->second)
      throw differs("tuned settings", tuned->second, planned);
  if (plan.range && found->second.scores)
    throw UserError(where_ + " has run " + plan.name() + " without its evaluations at " + plan.range->text() +
                    ": only its folder has them");
  RunResult run = found->second;
  run.plan = plan;
  return run;
}

TuneRecords EarlierRuns::tuning(const std::vector<TunedPlace>& places) const {
  TuneRecords records;
  for (const TunedPlace& place : places)
    if (const auto found = tries_.find(place.place); found != tries_.end())
      if (std::ranges::any_of(found->second, &EarlierTry::chosen))
        records.emplace(place.place, record_of(place, found->second));
  return records;
}

TuneRecord EarlierRuns::record_of(const TunedPlace& place, const std::vector<EarlierTry>& tries) const {
  TuneRecord record;
  for (const EarlierTry& tried : tries) {
    const auto number = static_cast<std::size_t>(tried.number);
    const std::string planned = number > place.tries.size() ? "no such try" : settings_text(place.tries[number - 1]);
    if (planned != tried.settings)
      throw UserError(where_ + " has try " + std::to_string(number) + " of " + place.place + " with " + tried.settings +
                      ", planned is " + planned + ": it is of another comparison");
    for (const TriedSettings::Run& run : tried.runs)
      if (std::ranges::find(place.runs, run.seed, &PlannedRun::seed) == place.runs.end())
        throw UserError(where_ + " has try " + std::to_string(number) + " of " + place.place + " with seed " +
                        std::to_string(run.seed) + ", which [tune] has not: it is of another comparison");
    if (std::ranges::count(tries, tried.number, &EarlierTry::number) > 1)
      throw UserError(where_ + " has try " + std::to_string(number) + " of " + place.place + " again");
    record.rungs.resize(std::max(record.rungs.size(), tried.rung));
    if (tried.chosen) record.chosen = place.tries[number - 1];
  }
  // Of all that were in the last rung.
  if (std::ranges::count(tries, true, &EarlierTry::chosen) > 1 ||
      std::ranges::find(tries, true, &EarlierTry::chosen)->rung != record.rungs.size())
    throw UserError(where_ + " has two that were chosen of " + place.place + ", or one that was dropped later");
  for (std::size_t i = 0; i < record.rungs.size(); ++i) {
    TuneRung& rung = record.rungs[i];
    for (const EarlierTry& tried : tries) {
      if (tried.rung < i + 1) continue;
      const bool ended = tried.rung == i + 1, went_on = !ended || tried.chosen;
      TriedSettings settings{tried.number, place.tries[static_cast<std::size_t>(tried.number - 1)], "", {}};
      if (ended) {
        settings.failure = tried.failure;
        settings.runs = tried.runs;
        rung.steps = tried.steps;
      }
      rung.tries.insert(went_on ? rung.tries.begin() + static_cast<std::ptrdiff_t>(rung.kept++) : rung.tries.end(),
                        std::move(settings));
    }
  }
  return record;
}

bool take_earlier(RunResult& run, const EarlierRuns& earlier) {
  if (run.counts() || run.state.running) return false;
  std::optional<RunResult> found = earlier.find(run.plan);
  if (found) run = *std::move(found);
  return found.has_value();
}

RunState read_run_state(const PlannedRun& run, const EarlierRuns& earlier) {
  RunState state = read_run_state(run);
  if (!state.ended() && !state.running)
    if (const auto known = earlier.find(run)) return known->state;
  return state;
}

std::string curve_text(const std::vector<std::pair<double, double>>& curve) {
  std::string text;
  for (const auto& [steps, success] : curve)
    text.append(text.empty() ? "" : " ").append(number_text(steps)).append(":").append(number_text(success));
  return text;
}

}  // namespace engram
