#include "apps/cli/status_display.h"

#include <cmath>
#include <utility>

#include "base/text/formatted.h"
#include "base/text/words.h"

namespace engram {
namespace {

constexpr double kPlainLineSeconds = 5;

std::string percent(double fraction) { return formatted("%.0f%%", 100 * fraction); }

// Most of all a user wants to know how far it is, how long it still takes and whether it learns; then how fast it is.
ProgressLine status_line(const TrainStatus& status) {
  ProgressLine line{.done = status.done, .bar_rank = 5, .parts = {}};
  const auto add = [&line](int rank, std::string text) { line.parts.push_back({rank, std::move(text)}); };
  add(0, formatted("%3.0f%%", 100 * status.done));
  add(4, count_text(static_cast<double>(status.steps)) + " steps");
  add(7, count_text(status.steps_per_second) + " steps/s");
  add(8, count_text(status.updates_per_second) + " updates/s");
  if (status.seconds_left) add(1, duration_text(*status.seconds_left) + " left");
  if (status.episodes > 0) {
    add(6, formatted("return %.2f", status.recent_return));
    add(2, "success " + percent(status.recent_success));
  }
  if (status.last_evaluation) add(3, "evaluated " + percent(status.last_evaluation->greedy.success));
  return line;
}

}  // namespace

std::string count_text(double count) {
  if (count < 9.95) return formatted(count == std::floor(count) ? "%.0f" : "%.1f", count);
  if (count < 999.5) return formatted("%.0f", count);
  if (count < 999'950) return formatted("%.1fk", count / 1e3);
  return formatted("%.2fM", count / 1e6);
}

void StatusDisplay::report(const TrainStatus& status) {
  const auto now = std::chrono::steady_clock::now();
  if (!line_.live() && std::chrono::duration<double>(now - last_line_).count() < kPlainLineSeconds) return;
  last_line_ = now;
  line_.show(status_line(status));
}

void StatusDisplay::evaluated(const TrainStatus& status, const AgentNetwork&, bool best) {
  const EvaluationSummary& evaluation = *status.last_evaluation;
  const std::string sampled =
      evaluation.sampled ? formatted(", sampled %4s", percent(evaluation.sampled->success).c_str()) : "";
  say(formatted("%6s steps %6s: greedy success %4s%s, return %6.2f%s",
                count_text(static_cast<double>(evaluation.environment_steps)).c_str(),
                duration_text(status.seconds).c_str(), percent(evaluation.greedy.success).c_str(), sampled.c_str(),
                evaluation.greedy.mean_return, best ? " (best)" : ""));
}

// Called after the recorder, so that what it says is true.
void StatusDisplay::save(const TrainStatus& status, StateArchive&) {
  say(formatted("%6s steps %6s: saved", count_text(static_cast<double>(status.steps)).c_str(),
                duration_text(status.seconds).c_str()));
}

void StatusDisplay::finished(const TrainStatus& status, const AgentNetwork&) {
  const char* reason = "";
  switch (status.stopped) {
    case StopReason::kNone:
    case StopReason::kSteps:
      reason = "all steps are done";
      break;
    case StopReason::kTime:
      reason = "run.max_seconds is over";
      break;
    case StopReason::kSolved:
      reason = "evaluation.stop_at_success is reached";
      break;
    case StopReason::kRequest:
      reason = "stopped on request";
      break;
  }
  say(formatted("Finished after %s: %s steps, %s updates (%s).", duration_text(status.seconds).c_str(),
                count_text(static_cast<double>(status.steps)).c_str(),
                count_text(static_cast<double>(status.updates)).c_str(), reason));
  const auto& last = status.final_evaluation;
  if (!last) return;
  say(formatted("The best weights, of %s steps, over %s:",
                count_text(static_cast<double>(last->weights.environment_steps)).c_str(),
                counted(last->episodes, "further episode").c_str()));
  const auto played = [this](const char* name, const FinalEvaluation::Played& episodes) {
    say(formatted("  %-7s success %5.1f%% (95%% interval %.1f to %.1f), return %.2f", name,
                  100 * episodes.success.estimate, 100 * episodes.success.low, 100 * episodes.success.high,
                  episodes.mean_return));
  };
  played("greedy", last->greedy);
  if (last->sampled) played("sampled", *last->sampled);
}

}  // namespace engram
