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
std::optional<TriedSettings> result_of(const TunedPlace& place, int number) {
  TriedSettings tried{number, place.tries[static_cast<std::size_t>(number - 1)], "", {}};
  for (const PlannedRun& planned : place.runs) {
    if (planned.try_number != number) continue;
    const RunResult run = read_run(planned);
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

Tuning::Tuning(fs::path folder, const TuneOptions& options, std::vector<TunedPlace>& places)
    : folder_(std::move(folder)), options_(options) {
  for (TunedPlace& place : places)
    places_.push_back(
        {&place, place.runs.front().config.run.steps, read_tune_record(record_file(folder_, place.place)), {}});
  for (Place& place : places_)
    if (!place.record.chosen) begin_rung(place);
}

void Tuning::begin_rung(Place& place) {
  TunedPlace& tries = *place.tries;
  if (tries.tries.size() == 1) {
    place.record.chosen = tries.tries.front();
    write_tune_record(record_file(folder_, tries.place), place.record);
    chosen_.push_back(tries.place);
    return;
  }
  const std::vector<int> numbers = next_tries(place.record, tries.tries.size());
  const std::int64_t steps = steps_to_rung(options_, place.record.rungs.size(), place.whole);
  for (PlannedRun& run : tries.runs) {
    if (std::ranges::find(numbers, run.try_number) == numbers.end()) continue;
    run.config.run.steps = steps_to_ask_for(run, steps);
    place.rung.insert(&run);
    waiting_.push_back(&run);
  }
}

std::vector<const PlannedRun*> Tuning::next() {
  std::ranges::stable_sort(waiting_, {}, &PlannedRun::seed);
  return std::exchange(waiting_, {});
}

void Tuning::over(const PlannedRun& run) {
  for (Place& place : places_)
    if (place.rung.erase(&run) > 0 && place.rung.empty()) end_rung(place);
}

// Leaves the place as it is where the rung is not done, or where no try is left.
void Tuning::end_rung(Place& place) {
  const std::size_t rung = place.record.rungs.size();
  TuneRung done;
  for (const int number : next_tries(place.record, place.tries->tries.size())) {
    const std::optional<TriedSettings> tried = result_of(*place.tries, number);
    if (!tried) return;
    done.tries.push_back(*tried);
  }
  sort_tries(done.tries);
  const auto sound = static_cast<std::size_t>(
      std::ranges::count_if(done.tries, [](const TriedSettings& tried) { return tried.failure.empty(); }));
  if (sound == 0) {
    diverged_.push_back(place.tries->place + ": all " + counted(done.tries.size(), "try", "tries") +
                        " of [tune] have diverged, the first with " + settings_text(done.tries.front().settings) +
                        ": " + done.tries.front().failure);
    return;
  }
  const bool last = rung + 1 == options_.rungs.size();
  done.kept = last ? 1 : std::min(options_.kept_of(done.tries.size()), sound);
  done.steps = steps_to_rung(options_, rung, place.whole);
  if (done.kept == 1) place.record.chosen = done.tries.front().settings;
  place.record.rungs.push_back(std::move(done));
  write_tune_record(record_file(folder_, place.tries->place), place.record);
  if (place.record.chosen)
    chosen_.push_back(place.tries->place);
  else
    begin_rung(place);
}

TuneOutcome Tuning::outcome(const std::vector<EndedRun>& failed) const {
  TuneOutcome outcome{{}, diverged_};
  for (const EndedRun& ended : failed)
    if (ended.run->try_number > 0 && !has_diverged(ended.failure)) outcome.failed.push_back(ended);
  return outcome;
}

}  // namespace engram
