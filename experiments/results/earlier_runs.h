// EarlierRuns: what a report says of runs that have ended (RunState::ended()), and of tries of tuning, whose folders
// are not at hand any more, or are on another machine.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/plan/plan.h"
#include "experiments/plan/tune_record.h"
#include "experiments/results/results.h"

namespace engram {

// What a report's table says of a try of tuning.
struct EarlierTry {
  int number = 0;  // as in TriedSettings
  std::string settings, failure;
  std::size_t rung = 0;  // the last that it took part in, from 1
  bool chosen = false;
  std::int64_t steps = 0;  // of a run up to its end
  std::vector<TriedSettings::Run> runs = {};
};

class EarlierRuns {
 public:
  // earlier.csv in the folder of a comparison.
  static std::filesystem::path file_of(const std::filesystem::path& directory);
  // Those of that file; none where there is none. Errors are those of parse() and read_table_file().
  static EarlierRuns of(const std::filesystem::path& directory);
  // The runs that have ended of the text of a report's CSV (report_csv()), which errors call `file`. Columns are found
  // by their names; a table needs those of the run, its budget, steps and, of a finished one, final success, and of
  // others a field may be empty. Throws UserError, record and column named, for a text that is none, a value that its
  // column cannot have, and a run that is there twice.
  static EarlierRuns parse(const std::string& text, const std::filesystem::path& file);

  std::size_t size() const { return runs_.size(); }
  std::vector<RunResult> all() const;  // in the table's order
  // Nothing where the run is not among them. Throws UserError if it is with another control, budget or choice of tuning
  // than planned, or finished where the plan has a range, of which a report's CSV has no evaluations.
  std::optional<RunResult> find(const PlannedRun& plan) const;
  // Of the places of which the table says what tuning has chosen: their records, which know of a try what it had
  // reached in its last rung, and of earlier ones that it went on. Throws UserError for tries that are not those
  // planned.
  TuneRecords tuning(const std::vector<TunedPlace>& places) const;

 private:
  TuneRecord record_of(const TunedPlace& place, const std::vector<EarlierTry>& tries) const;

  std::string where_;
  std::map<std::string, RunResult> runs_;     // by PlannedRun::name()
  std::map<std::string, std::string> tuned_;  // by the same: settings_text() of what tuning had chosen
  std::vector<std::string> order_;            // names, as the table has them
  std::map<std::string, std::vector<EarlierTry>>
      tries_;  // by place, as the table has them: in each rung the best first
};

// As read_run_state() has it; where the run has not ended in its folder, as an earlier one has.
RunState read_run_state(const PlannedRun& run, const EarlierRuns& earlier);

// Puts an earlier run in the place of one that neither has ended in its folder nor is training; whether it has.
bool take_earlier(RunResult& run, const EarlierRuns& earlier);

// The evaluations of a run as a field of a report's CSV: "5000:0.31 10000:0.52", environment steps and success.
std::string curve_text(const std::vector<std::pair<double, double>>& curve);

}  // namespace engram
