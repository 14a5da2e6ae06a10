#include "apps/status_display.h"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace engram {
namespace {

constexpr double kPlainLineSeconds = 5;
constexpr int kBarCells = 20;

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char text[256];
  std::snprintf(text, sizeof(text), pattern, values...);
  return text;
}

std::string percent(double fraction) { return format("%.0f%%", 100 * fraction); }

std::string bar(double done) {
  const int full = std::clamp(static_cast<int>(done * kBarCells), 0, kBarCells);
  return std::string("[").append(full, '#').append(kBarCells - full, '.').append("] ");
}

std::string status_text(const TrainStatus& status) {
  std::string text = format("%3.0f%%  %s steps  %s steps/s  %s updates/s", 100 * status.done,
                            count_text(static_cast<double>(status.steps)).c_str(),
                            count_text(status.steps_per_second).c_str(), count_text(status.updates_per_second).c_str());
  if (status.seconds_left) text += "  " + duration_text(*status.seconds_left) + " left";
  if (status.episodes > 0)
    text += format("  return %.2f  success %s", status.recent_return, percent(status.recent_success).c_str());
  if (status.last_evaluation) text += "  evaluated " + percent(status.last_evaluation->greedy.success);
  return text;
}

}  // namespace

std::string duration_text(double seconds) {
  const auto whole = static_cast<long>(std::lround(seconds));
  if (whole < 60) return format("%lds", whole);
  if (whole < 3600) return format("%ldm%02lds", whole / 60, whole % 60);
  return format("%ldh%02ldm", whole / 3600, whole % 3600 / 60);
}

std::string count_text(double count) {
  if (count < 9.95) return format(count == std::floor(count) ? "%.0f" : "%.1f", count);
  if (count < 999.5) return format("%.0f", count);
  if (count < 999'950) return format("%.1fk", count / 1e3);
  return format("%.2fM", count / 1e6);
}

void StatusDisplay::clear() {
  if (live_) out_ << "\r\033[K";
}

void StatusDisplay::report(const TrainStatus& status) {
  const auto now = std::chrono::steady_clock::now();
  if (live_) {
    clear();
    out_ << bar(status.done) << status_text(status) << std::flush;
  } else if (std::chrono::duration<double>(now - last_line_).count() >= kPlainLineSeconds) {
    last_line_ = now;
    out_ << status_text(status) << std::endl;
  }
}

void StatusDisplay::evaluated(const TrainStatus& status, const AgentNetwork&, bool best) {
  const EvaluationSummary& evaluation = *status.last_evaluation;
  clear();
  const std::string sampled = evaluation.sampled ? ", sampled " + percent(evaluation.sampled->success) : "";
  out_ << format("%8s steps %8s: greedy success %4s%s, return %7.2f over %d episodes%s",
                 count_text(static_cast<double>(evaluation.environment_steps)).c_str(),
                 duration_text(status.seconds).c_str(), percent(evaluation.greedy.success).c_str(), sampled.c_str(),
                 evaluation.greedy.mean_return, evaluation.episodes, best ? " (best)" : "")
       << std::endl;
}

// Behind the recorder, so that what it says is true.
void StatusDisplay::save(const TrainStatus& status, StateArchive&) {
  clear();
  out_ << format("%8s steps %8s: saved", count_text(static_cast<double>(status.steps)).c_str(),
                 duration_text(status.seconds).c_str())
       << std::endl;
}

void StatusDisplay::finished(const TrainStatus& status, const AgentNetwork&) {
  clear();
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
  out_ << format("Finished after %s: %s steps, %s updates (%s).", duration_text(status.seconds).c_str(),
                 count_text(static_cast<double>(status.steps)).c_str(),
                 count_text(static_cast<double>(status.updates)).c_str(), reason)
       << std::endl;
  const auto& last = status.final_evaluation;
  if (!last) return;
  out_ << format("The best weights, of %s steps, over %d further episodes:",
                 count_text(static_cast<double>(last->weights.environment_steps)).c_str(), last->episodes)
       << std::endl;
  const auto played = [this](const char* name, const FinalEvaluation::Played& episodes) {
    out_ << format("  %-7s success %5.1f%% (95%% interval %.1f to %.1f), return %.2f", name,
                   100 * episodes.success.estimate, 100 * episodes.success.low, 100 * episodes.success.high,
                   episodes.mean_return)
         << std::endl;
  };
  played("greedy", last->greedy);
  if (last->sampled) played("sampled", *last->sampled);
}

}  // namespace engram
