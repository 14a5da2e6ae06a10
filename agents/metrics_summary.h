// MetricsSummary: how far a run has come and what its evaluations were, from its metrics.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>

#include "agents/trainer.h"

namespace engram {

struct MetricsSummary {
  std::int64_t steps = 0, updates = 0, episodes = 0;  // of the last row of kind "train"
  std::int64_t skipped_updates = 0;                   // of the same row
  std::int64_t evaluations = 0;
  std::optional<EvaluationSummary> last_evaluation, best_evaluation;  // best: by better_or_equal()
  std::optional<FinalEvaluation> final_evaluation;
  std::int64_t damaged_rows = 0;
};

// Reads line by line; a line that is no row of metrics is counted and passed over, an unfinished last one is not even
// counted: it may be in writing. Nothing where there is no file. Throws UserError for one that cannot be read.
MetricsSummary summarize_metrics(const std::filesystem::path& file);

// The same from a stream; `where` names it in messages.
MetricsSummary summarize_metrics(std::istream& stream, const std::string& where);

}  // namespace engram
