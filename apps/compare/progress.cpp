#include "apps/compare/progress.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <exception>
#include <map>
#include <utility>

#include "agents/study/metrics_summary.h"
#include "apps/cli/status_display.h"
#include "base/error.h"
#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/report/text.h"

namespace engram {
namespace {

constexpr double kLookSeconds = 2;
constexpr double kProgressLineSeconds = 30;

MetricsSummary metrics_of(const PlannedRun& run) {
  try {
    return summarize_metrics(run.folder / "metrics.jsonl");
  } catch (const UserError&) {
    return {};  // what is shown, not what is decided
  }
}

}  // namespace

CompareProgress::CompareProgress(std::ostream& out, TerminalWidth width, const std::vector<const PlannedRun*>& runs,
                                 int jobs, LivePage* page)
    : line_(out, std::move(width)), jobs_(jobs), page_(page) {
  CompareProgress::added(runs);
}

void CompareProgress::added(const std::vector<const PlannedRun*>& runs) {
  for (const PlannedRun* run : runs) {
    const auto [place, is_new] = places_.try_emplace(run->name(), runs_.size());
    if (is_new)
      runs_.push_back({run});
    else
      runs_[place->second] = {run};
  }
}

int CompareProgress::count(Stage stage) const {
  return static_cast<int>(std::ranges::count(runs_, stage, &Progress::stage));
}

std::vector<std::string> CompareProgress::mishaps() const {
  std::vector<std::string> texts;
  for (const auto& [stage, name] : {std::pair(Stage::kDiverged, " diverged"), {Stage::kFailed, " failed"}})
    if (const int runs = count(stage); runs > 0) texts.push_back(std::to_string(runs) + name);
  return texts;
}

void CompareProgress::count_ended(const PlannedRun& run, const RunState& state) {
  Progress& progress = of(run);
  progress.stage = state.diverged() ? Stage::kDiverged : Stage::kFinished;
  progress.steps = metrics_of(run).steps;
}

void CompareProgress::started(const PlannedRun& run) {
  Progress& progress = of(run);
  progress.stage = Stage::kRunning;
  if (progress.trained) return;
  progress.steps = progress.first_steps = metrics_of(run).steps;
  progress.seconds = 0;
}

void CompareProgress::ended(const EndedRun& ended) {
  if (page_ != nullptr) page_->run_ended();
  Progress& progress = of(*ended.run);
  const MetricsSummary metrics = metrics_of(*ended.run);
  progress.steps = metrics.steps;
  if (!progress.trained) progress.seconds = ended.seconds;
  progress.stage = ended.end == RunEnd::kFinished   ? Stage::kFinished
                   : ended.end == RunEnd::kDiverged ? Stage::kDiverged
                   : ended.end == RunEnd::kFailed   ? Stage::kFailed
                                                    : Stage::kWaiting;
  const std::string steps = count_text(static_cast<double>(metrics.steps)) + " steps";
  if (ended.end == RunEnd::kDiverged) say(ended.run->name() + " diverged: " + ended.failure.reason);
  if (ended.end == RunEnd::kFailed) say(ended.run->name() + " failed: " + failure_text(ended.failure));
  if (ended.end == RunEnd::kPutOff) {
    jobs_ = std::max(1, count(Stage::kRunning));
    if (!std::exchange(said_put_off_, true)) say("Fewer runs at once from here on: " + ended.failure.reason);
  }
  if (ended.end == RunEnd::kCrowded)
    say(ended.run->name() + " is tried again by itself when the others have ended: " + ended.failure.reason);
  if (ended.end == RunEnd::kStopped) say(ended.run->name() + ": stopped, saved");
  const bool evaluated = std::exchange(progress.trained, progress.trained || ended.end == RunEnd::kTrained);
  if (ended.end == RunEnd::kFinished && evaluated)
    say(ended.run->name() + ": evaluated at " + ended.run->range->text());
  if ((ended.end != RunEnd::kFinished && ended.end != RunEnd::kTrained) || evaluated || !metrics.final_evaluation)
    return;
  const auto& sampled = metrics.final_evaluation->sampled;
  say(ended.run->name() + ": success " + percent(metrics.final_evaluation->greedy.success.estimate) + "%" +
      (sampled ? ", sampled " + percent(sampled->success.estimate) + "%" : "") + ", after " + steps + ", " +
      duration_text(ended.seconds));
}

void CompareProgress::waits_for(const std::deque<const PlannedRun*>& elsewhere) {
  say("Another program trains " + elsewhere.front()->name() +
      (elsewhere.size() == 1 ? "" : " and " + std::to_string(elsewhere.size() - 1) + " more") +
      "; waiting for it where it is not done.");
}

void CompareProgress::stopping(std::size_t runs) {
  say("Stopping, and saving what there is of " + counted(runs, "run") + ".");
}

// From the speed of each pair of task and backbone where one of its runs has gone some way, else the mean speed; and
// from the length of its finished runs, which may have stopped early.
double CompareProgress::seconds_left() const {
  using Pair = std::pair<std::string, std::string>;
  struct Known {
    double seconds = 0, steps = 0, finished_steps = 0;
    int finished = 0;
  };
  std::map<Pair, Known> known;
  Known all;
  for (const Progress& progress : runs_) {
    Known& pair = known[{progress.run->task, progress.run->backbone}];
    const double steps = static_cast<double>(progress.steps - progress.first_steps);
    if (progress.seconds > 0 && steps > 0) {
      pair.seconds += progress.seconds, pair.steps += steps;
      all.seconds += progress.seconds, all.steps += steps;
    }
    if (progress.stage == Stage::kFinished) {
      pair.finished_steps += static_cast<double>(progress.steps);
      ++pair.finished;
    }
  }
  if (all.steps == 0) return NAN;
  double total = 0, longest = 0;
  for (const Progress& progress : runs_) {
    if (progress.stage != Stage::kWaiting && progress.stage != Stage::kRunning) continue;
    const Known& pair = known.at({progress.run->task, progress.run->backbone});
    const double length =
        pair.finished > 0 ? pair.finished_steps / pair.finished : static_cast<double>(progress.run->config.run.steps);
    const double left = std::max(0.0, length - static_cast<double>(progress.steps));
    const double seconds = left * (pair.steps > 0 ? pair.seconds / pair.steps : all.seconds / all.steps);
    total += seconds;
    longest = std::max(longest, seconds);
  }
  return std::max(longest, total / jobs_);
}

double CompareProgress::done() const {
  double done = 0;
  for (const Progress& progress : runs_)
    done +=
        progress.stage != Stage::kWaiting && progress.stage != Stage::kRunning
            ? 1
            : std::min(1.0, static_cast<double>(progress.steps) / static_cast<double>(progress.run->config.run.steps));
  return runs_.empty() ? 1 : done / static_cast<double>(runs_.size());
}

// Runs do not end for want of a page.
void CompareProgress::update_page() {
  try {
    page_->update([this] { return state_for_page(); });
  } catch (const std::exception& error) {
    say(std::string("The page is not written any more: ") + error.what());
    page_ = nullptr;
  }
}

UnderWay CompareProgress::state_for_page() const {
  UnderWay state;
  state.headline = std::to_string(count(Stage::kFinished)) + " of " + counted(runs_.size(), "run") + " finished, " +
                   std::to_string(count(Stage::kRunning)) + " running";
  for (const std::string& text : mishaps()) state.headline += ", " + text;
  if (const double left = seconds_left(); std::isfinite(left))
    state.headline += ", about " + duration_text(left) + " left";
  state.headline += ".";
  const std::time_t now = std::time(nullptr);
  char text[32];
  std::tm local{};
  localtime_r(&now, &local);
  std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &local);
  state.time = text;
  state.done = done();
  return state;
}

// Most of all a user wants to know how far it is, how long it still takes and whether something went wrong.
ProgressLine CompareProgress::line() const {
  const double done = this->done();
  ProgressLine line{.done = done, .bar_rank = 4, .parts = {}};
  line.parts.push_back(
      {3, std::to_string(count(Stage::kFinished)) + " of " + counted(runs_.size(), "run") + " finished"});
  line.parts.push_back({5, std::to_string(count(Stage::kRunning)) + " running", ", "});
  for (const std::string& text : mishaps()) line.parts.push_back({2, text, ", "});
  line.parts.push_back({0, formatted("%.0f%%", 100 * done)});
  if (const double left = seconds_left(); std::isfinite(left))
    line.parts.push_back({1, "about " + duration_text(left) + " left"});
  return line;
}

void CompareProgress::report(const std::vector<RunJob>& jobs) {
  const auto now = std::chrono::steady_clock::now();
  const auto seconds = [&](auto since) { return std::chrono::duration<double>(now - since).count(); };
  if (seconds(last_look_) < kLookSeconds) return;
  last_look_ = now;
  for (const RunJob& job : jobs) {
    for (const PlannedRun* run : job.runs) {
      Progress& progress = of(*run);
      progress.steps = metrics_of(*run).steps;
      if (!progress.trained) progress.seconds = seconds(job.begin);
    }
  }
  if (page_ != nullptr) update_page();
  if (!line_.live() && seconds(last_line_) < kProgressLineSeconds) return;
  last_line_ = now;
  line_.show(line());
}

}  // namespace engram
