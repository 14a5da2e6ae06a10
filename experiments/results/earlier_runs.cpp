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
#include "experiments/plan/plan.h"
#include "experiments/results/csv.h"

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

RunResult result_in(const Row& row) {
  PlannedRun plan;
  plan.task = row.text("task");
  plan.backbone = row.text("backbone");
  plan.learner = row.text("learner");  // only tables of experiments with learners have the column
  plan.seed = row.number<std::uint64_t>("seed", 0);
  plan.control = control_in(row);
  for (const BudgetPart& part : kBudgetParts) plan.budget.*part.value = row.number<std::int64_t>(part.name, 0);
  RunResult run = RunResult::missing(std::move(plan));
  run.state.stage = RunStage::kFinished;
  run.state.trained = true;
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
  run.scores = scores_in(row);
  run.remark = row.text("remark");
  return run;
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
    // Tries of tuning, too, have a state of their own.
    if (row.text("state") != "finished" || row.text("final_success").empty()) continue;
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
  if (plan.range)
    throw UserError(where_ + " has run " + plan.name() + " without its evaluations at " + plan.range->text() +
                    ": only its folder has them");
  RunResult run = found->second;
  run.plan = plan;
  return run;
}

bool take_earlier(RunResult& run, const EarlierRuns& earlier) {
  if (run.scores || run.state.running) return false;
  std::optional<RunResult> found = earlier.find(run.plan);
  if (found) run = *std::move(found);
  return found.has_value();
}

RunState read_run_state(const fs::path& directory, const PlannedRun& run, const EarlierRuns& earlier) {
  RunState state = read_run_state(directory, run);
  if (state.stage != RunStage::kFinished && !state.running)
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
