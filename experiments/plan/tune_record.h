// TuneRecord: what tuning has found for one task, learner and backbone so far, and what it has chosen. Its file
// (record_file()) is written after each rung, and nothing that it says is found out again: what is chosen is frozen.
//
//   {"rungs": [{"steps": 100, "tries": [{"try": 1, "settings": {"learner.learning_rate": "1e-3"}, "failure": "",
//    "runs": [{"seed": 100, "success": 0.5, "mean_return": 0.25, "area": 0.5}]}], "kept": 1}],
//    "chosen": {"learner.learning_rate": "1e-3"}}                the tries of a rung in their order, the best first
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "storage/settings.h"

namespace engram {

// A try at the end of a rung.
struct TriedSettings {
  struct Run {
    std::uint64_t seed = 0;
    double success = 0;                 // of the final evaluation, in [0, 1]
    std::optional<double> mean_return;  // of the same; nothing where it is not finite
    double area = 0;                    // under the curve of the evaluations so far

    bool operator==(const Run&) const = default;
  };

  int number = 0;  // from 1, as in PlannedRun::try_number
  Settings settings;
  std::string failure;    // one line: why a seed of it diverged; empty: none did
  std::vector<Run> runs;  // of those that did not

  bool operator==(const TriedSettings&) const = default;
};

// Means over the runs; 0 without one.
double mean_success(const TriedSettings& tried);

// The best first: by the mean success of the final evaluations, then by their mean return, then by the mean area under
// the evaluations, then in the order given. A try with a run that diverged comes behind all others.
void sort_tries(std::vector<TriedSettings>& tries);

struct TuneRung {
  std::int64_t steps = 0;  // environment steps of a run up to here
  std::vector<TriedSettings> tries;
  std::size_t kept = 0;  // so many of the first go on, or are chosen

  bool operator==(const TuneRung&) const = default;
};

struct TuneRecord {
  std::vector<TuneRung> rungs;     // those that are done
  std::optional<Settings> chosen;  // once all that are needed are

  // From which of a rung's tries on this rung is the last that they took part in.
  std::size_t first_ended(std::size_t rung) const { return rung + 1 == rungs.size() ? 0 : rungs[rung].kept; }

  bool operator==(const TuneRecord&) const = default;
};

// By place, "TASK/BACKBONE" or "TASK/LEARNER/BACKBONE" (PlannedRun::place()).
using TuneRecords = std::map<std::string, TuneRecord>;

// Of the runs of a place, in the folder of the tuning.
std::filesystem::path record_file(const std::filesystem::path& tuning, const std::string& place);
// The folder of the tuning of a comparison.
std::filesystem::path tuning_folder(const std::filesystem::path& directory);

// Empty where there is no file. Throws UserError for a file that write_tune_record() does not write.
TuneRecord read_tune_record(const std::filesystem::path& file);
// Creates the folder. Errors are those of replace_file().
void write_tune_record(const std::filesystem::path& file, const TuneRecord& record);

}  // namespace engram
