// EvaluationRange: one number of a task, and values of it at which trained agents are evaluated, wherever they were
// trained: success against length or delay. RangeEvaluations: what one agent reached there, kept in its run directory
// as evaluations.json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "agents/run/config/config.h"
#include "agents/study/metrics_summary.h"
#include "agents/study/statistics.h"

namespace engram {

struct EvaluationRange {
  struct Value {
    std::string text;  // as it was given
    double number;
  };

  std::string key;  // "task.corridor_length"
  std::vector<Value> values;

  std::string text() const;  // parse_range() reads it back
};

// "task.corridor_length: 10,20,50". Throws UserError for anything else, a value that is no number or is there twice,
// and for more than 100 values.
EvaluationRange parse_range(const std::string& text);

// The config of an agent at a value of the range. Throws UserError as with_task_settings() does.
Config config_at(const EvaluationRange& range, const EvaluationRange::Value& value, const Config& trained);
// Throws UserError unless an agent of this config can be evaluated at every value.
void check_range(const EvaluationRange& range, const Config& trained);

struct RangePoint {
  std::string key;
  double value;
  MeasuredEpisodes greedy, sampled;
};

struct RangeEvaluations {
  static constexpr int kFormat = 1;

  std::int64_t environment_steps = 0, updates = 0;  // of the best weights, which were evaluated
  int episodes = 0;                                 // of each point, greedily and again with sampled actions
  std::vector<RangePoint> points;

  // Whether they are of these weights and so many episodes.
  bool are_of(std::int64_t weights_steps, std::int64_t weights_updates, int wanted_episodes) const {
    return environment_steps == weights_steps && updates == weights_updates && episodes == wanted_episodes;
  }
  // The point at a value; null where there is none.
  const RangePoint* find(const std::string& key, double value) const;

  std::string to_json() const;
  // Throws UserError for anything that to_json() does not write; `where` names it in messages.
  static RangeEvaluations from_json(std::string_view text, const std::string& where);
};

std::filesystem::path range_file(const std::filesystem::path& run_directory);
// Nothing where there is no such file. Throws UserError for one that is damaged.
std::optional<RangeEvaluations> read_range_evaluations(const std::filesystem::path& run_directory);
// Errors are those of replace_file().
void write_range_evaluations(const std::filesystem::path& run_directory, const RangeEvaluations& evaluations);

// The points of a finished run's best weights at the values of the range, in their order: as far as they are there, of
// those weights and of so many episodes. Throws UserError for a damaged file.
std::vector<std::optional<RangePoint>> points_of_run(const std::filesystem::path& run_directory,
                                                     const EvaluationRange& range, const FinalEvaluation& last);

}  // namespace engram
