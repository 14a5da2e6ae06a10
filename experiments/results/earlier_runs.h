// EarlierRuns: what a report says of finished runs whose folders are not at hand any more, or are on another machine.
#pragma once

#include <cstddef>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "experiments/results/results.h"

namespace engram {

class EarlierRuns {
 public:
  // earlier.csv in the folder of a comparison.
  static std::filesystem::path file_of(const std::filesystem::path& directory);
  // Those of that file; none where there is none. Errors are those of parse() and read_table_file().
  static EarlierRuns of(const std::filesystem::path& directory);
  // The finished runs of the text of a report's CSV (report_csv()), which errors call `file`. Columns are found by
  // their names; a table needs those of the run, its budget, steps and final success, and of others a field may be
  // empty. Throws UserError, record and column named, for a text that is none, a value that its column cannot have, and
  // a run that is there twice. Rows of tuning are passed over.
  static EarlierRuns parse(const std::string& text, const std::filesystem::path& file);

  std::size_t size() const { return runs_.size(); }
  std::vector<RunResult> all() const;  // in the table's order
  // Nothing where the run is not among them. Throws UserError if it is with another control, budget or choice of tuning
  // than planned, or if the plan has a range, of which a report's CSV has no evaluations.
  std::optional<RunResult> find(const PlannedRun& plan) const;

 private:
  std::string where_;
  std::map<std::string, RunResult> runs_;     // by PlannedRun::name()
  std::map<std::string, std::string> tuned_;  // by the same: settings_text() of what tuning had chosen
  std::vector<std::string> order_;            // names, as the table has them
};

// As read_run_state() has it; where the folder holds no finished run, an earlier one is finished.
RunState read_run_state(const std::filesystem::path& directory, const PlannedRun& run, const EarlierRuns& earlier);

// Puts an earlier run in the place of one that its folder neither has finished nor is training; whether it has.
bool take_earlier(RunResult& run, const EarlierRuns& earlier);

// The evaluations of a run as a field of a report's CSV: "5000:0.31 10000:0.52", environment steps and success.
std::string curve_text(const std::vector<std::pair<double, double>>& curve);

}  // namespace engram
