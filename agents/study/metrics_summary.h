// MetricsSummary: how far a run has come and what its evaluations were, from its metrics.jsonl. TimingsSummary: what it
// cost, from its timings.jsonl.
#pragma once

#include <cstdint>
#include <filesystem>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "agents/run/training/train_status.h"

namespace engram {

struct MetricsSummary {
  std::int64_t steps = 0, updates = 0, episodes = 0;  // of the last row of kind "train"
  std::int64_t skipped_updates = 0;                   // of the same row
  std::vector<EvaluationSummary> evaluations;
  std::optional<EvaluationSummary> last_evaluation, best_evaluation;  // best: by better_or_equal()
  std::optional<FinalEvaluation> final_evaluation;
  // Of the rows of kind "train" that have one, in order.
  struct Temperature {
    std::int64_t steps;
    double alpha;
  };
  std::vector<Temperature> temperatures;
  // Of a learner on policy: the highest mean return of an iteration's training episodes (IterationEpisodes), which
  // POPGym calls MMER (Morad et al. 2023: maximum mean episodic reward). Finite; nothing where none is.
  std::optional<double> mmer;
  std::int64_t damaged_rows = 0;
};

struct TimingsSummary {
  std::optional<double> wall_seconds;        // of training, evaluations included
  std::optional<double> steps_per_second;    // environment steps, since learning began or went on
  std::optional<double> updates_per_second;  // of the learner, likewise
  std::optional<double> peak_memory_mb;      // of the program, in 10^6 bytes, without that of a GPU
  std::optional<double> peak_gpu_memory_mb;  // of LibTorch's allocator, in 10^6 bytes; nothing on the CPU
  std::int64_t damaged_rows = 0;
};

// Reads line by line; a line that is no row of metrics is counted and passed over, an unfinished last one is not even
// counted: it may be in writing. Nothing where there is no file. Throws UserError for one that cannot be read.
MetricsSummary summarize_metrics(const std::filesystem::path& file);

// The same from a stream; `where` names it in messages.
MetricsSummary summarize_metrics(std::istream& stream, const std::string& where);

// Likewise; each figure is that of the last row that has it.
TimingsSummary summarize_timings(const std::filesystem::path& file);

}  // namespace engram
