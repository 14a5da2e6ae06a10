#include "experiments/run/tune.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "base/text/words.h"
#include "experiments/results/results.h"
#include "storage/run/run_directory.h"

namespace engram {
namespace {

namespace fs = std::filesystem;

bool has_diverged(const RunFailure& failure) { return failure.kind == FailureKind::kDiverged; }

// What the runs of a try have come to. Nothing where one has failed for another reason, or is not finished.
std::optional<TriedSettings> result_of(const fs::path& tuning, const TunedPlace& place, int number) {
  TriedSettings tried{number, place.tries[static_cast<std::size_t>(number - 1)], "", {}};
  for (const PlannedRun& planned : place.runs) {
    if (planned.try_number != number) continue;
    const RunResult run = read_run(tuning, planned);
    if (run.scores) {
      const double mean_return = run.scores->mean_return;
      tried.runs.push_back({planned.seed, run.scores->final_success,
                            std::isfinite(mean_return) ? std::optional(mean_return) : std::nullopt,
                            run.scores->area.value_or(0)});
    } else if (run.state.stage == RunStage::kFailed && has_diverged(run.state.failure)) {
      if (tried.failure.empty()) tried.failure = run.state.failure.reason;
    } else {
      return {};
    }
  }
  return tried;
}

// The record with the rung of so many steps that its place has just done; nothing where it is not done, or where no try
// is left, of which `outcome` gets a line.
std::optional<TuneRecord> with_rung(const fs::path& tuning, const TuneOptions& options, const TunedPlace& place,
                                    std::int64_t steps, TuneRecord record, TuneOutcome& outcome) {
  const std::size_t rung = record.rungs.size();
  TuneRung done;
  for (const int number : next_tries(record, place.tries.size())) {
    const std::optional<TriedSettings> tried = result_of(tuning, place, number);
    if (!tried) return {};
    done.tries.push_back(*tried);
  }
  sort_tries(done.tries);
  const auto sound = static_cast<std::size_t>(
      std::ranges::count_if(done.tries, [](const TriedSettings& tried) { return tried.failure.empty(); }));
  if (sound == 0) {
    outcome.diverged.push_back(place.place + ": all " + counted(done.tries.size(), "try", "tries") +
                               " of [tune] have diverged, the first with " +
                               settings_text(done.tries.front().settings) + ": " + done.tries.front().failure);
    return {};
  }
  const bool last = rung + 1 == options.rungs.size();
  done.kept = last ? 1 : std::min(options.kept_of(done.tries.size()), sound);
  done.steps = steps;
  if (done.kept == 1) record.chosen = done.tries.front().settings;
  record.rungs.push_back(std::move(done));
  return record;
}

}  // namespace

std::vector<int> next_tries(const TuneRecord& record, std::size_t tries) {
  std::vector<int> numbers;
  if (record.rungs.empty())
    for (std::size_t i = 1; i <= tries; ++i) numbers.push_back(static_cast<int>(i));
  else
    for (std::size_t i = 0; i < record.rungs.back().kept; ++i) numbers.push_back(record.rungs.back().tries[i].number);
  return numbers;
}

std::int64_t steps_to_ask_for(const PlannedRun& run, std::int64_t steps) {
  if (!RunDirectory::is_run(run.folder)) return steps;
  const RunDirectory directory = RunDirectory::open(run.folder);
  const std::int64_t asked = read_config(directory.config_file()).run.steps;
  return asked < steps && summarize_metrics(directory.metrics_file()).steps >= steps ? asked : steps;
}

std::int64_t steps_to_rung(const TuneOptions& tune, std::size_t rung, std::int64_t steps) {
  return std::max<std::int64_t>(1, std::llround(tune.rungs[rung] * static_cast<double>(steps)));
}

std::vector<std::size_t> tries_in_rungs(const TuneOptions& tune, std::size_t tries) {
  std::vector<std::size_t> taking_part;
  for (std::size_t left = tries; left > 1 && taking_part.size() < tune.rungs.size(); left = tune.kept_of(left))
    taking_part.push_back(left);
  return taking_part;
}

std::int64_t steps_of_tuning(const TuneOptions& tune, const TunedPlace& place) {
  const std::int64_t whole = place.runs.front().config.run.steps;
  std::int64_t steps = 0, before = 0;
  const std::vector<std::size_t> tries = tries_in_rungs(tune, place.tries.size());
  for (std::size_t rung = 0; rung < tries.size(); ++rung) {
    const std::int64_t here = steps_to_rung(tune, rung, whole);
    steps += static_cast<std::int64_t>(tries[rung] * tune.seeds.size()) * (here - before);
    before = here;
  }
  return steps;
}

TuneOutcome tune(const fs::path& tuning, const TuneOptions& options, std::vector<TunedPlace>& places,
                 const RungRunner& run_rung) {
  TuneOutcome outcome;
  std::vector<std::int64_t> whole;
  for (const TunedPlace& place : places) whole.push_back(place.runs.front().config.run.steps);
  for (std::size_t rung = 0; rung < options.rungs.size(); ++rung) {
    struct AtWork {
      TunedPlace* place;
      std::int64_t steps;
      TuneRecord record;
    };
    std::vector<AtWork> at_work;
    std::vector<const PlannedRun*> runs;
    for (std::size_t i = 0; i < places.size(); ++i) {
      TunedPlace& place = places[i];
      const fs::path file = record_file(tuning, place.place);
      TuneRecord record = read_tune_record(file);
      if (record.chosen || record.rungs.size() != rung) continue;
      if (place.tries.size() == 1) {
        record.chosen = place.tries.front();
        write_tune_record(file, record);
        continue;
      }
      const std::vector<int> numbers = next_tries(record, place.tries.size());
      const std::int64_t steps = steps_to_rung(options, rung, whole[i]);
      for (PlannedRun& run : place.runs) {
        if (std::ranges::find(numbers, run.try_number) == numbers.end()) continue;
        run.config.run.steps = steps_to_ask_for(run, steps);
        runs.push_back(&run);
      }
      at_work.push_back({&place, steps, std::move(record)});
    }
    if (at_work.empty()) continue;
    // Seed by seed, so that places come along together.
    std::ranges::stable_sort(runs, {}, &PlannedRun::seed);
    const RunsOutcome ran = run_rung(rung, runs);
    if (ran.stopped) return {.stopped = true, .failed = {}, .diverged = {}};
    for (const EndedRun& ended : ran.failed)
      if (!has_diverged(ended.failure)) outcome.failed.push_back(ended);
    for (const auto& [place, steps, record] : at_work)
      if (const auto further = with_rung(tuning, options, *place, steps, record, outcome))
        write_tune_record(record_file(tuning, place->place), *further);
  }
  return outcome;
}

}  // namespace engram
