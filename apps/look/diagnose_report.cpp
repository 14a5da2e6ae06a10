#include "apps/look/diagnose_report.h"

#include <array>
#include <cstdint>
#include <vector>

#include "agents/study/statistics.h"
#include "base/text/formatted.h"

namespace engram {
namespace {

// What is looked into: episodes of one kind, or null.
struct DiagnosedKind {
  const char* name;
  const Diagnosis* found;
};

std::array<DiagnosedKind, 3> all_kinds(const RunDiagnosis& findings) {
  return {{{"greedy", &findings.greedy},
           {"sampled", &findings.sampled},
           {"replayed", findings.replayed ? &*findings.replayed : nullptr}}};
}

// Q of an action, V of a state.
std::string letter_of(const Diagnosis& found) { return found.values_are_of_actions ? "Q" : "V"; }

std::string interval_text(std::int64_t count, std::int64_t total) {
  const Interval interval = wilson_interval(count, total);
  return formatted("%5.1f (%.1f .. %.1f)", 100 * interval.estimate, 100 * interval.low, 100 * interval.high);
}

std::string successes_text(const RunDiagnosis& findings, std::optional<double> chance) {
  std::string text =
      formatted("\n%-10s %8s  %-22s  %-22s  %s\n", "", "episodes", "success, %", "decided, %", "right of these, %");
  for (const auto& [name, looked] : all_kinds(findings)) {
    if (looked == nullptr) {
      text += formatted("%-10s none: %s\n", name, findings.why_none_replayed.c_str());
      continue;
    }
    const Diagnosis& found = *looked;
    std::string decided = "-", right = "-";
    if (const auto& decisions = found.decisions) {
      const std::int64_t count = decisions->right + decisions->wrong;
      decided = interval_text(count, found.episodes);
      if (count > 0) right = interval_text(decisions->right, count);
    }
    text += formatted("%-10s %8lld  %-22s  %-22s  %s\n", name, static_cast<long long>(found.episodes),
                      interval_text(found.solved, found.episodes).c_str(), decided.c_str(), right.c_str());
  }
  if (chance) text += formatted("%-10s %8s  %5.1f\n", "chance", "", 100 * *chance);
  return text;
}

std::string decisions_text(const RunDiagnosis& findings) {
  if (!findings.sampled.decisions) return "\nThe task does not say what its decision is.\n";
  std::string text =
      formatted("\n%s at the deciding step: area under the curve of right against wrong decisions; chance 0.5\n",
                letter_of(findings.sampled).c_str());
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    const Diagnosis::Decisions& decisions = *found->decisions;
    const std::string auc = decisions.value_auc ? formatted("%.3f", *decisions.value_auc) : "-";
    text += formatted("%-10s %8s  %lld right, %lld wrong\n", name, auc.c_str(), static_cast<long long>(decisions.right),
                      static_cast<long long>(decisions.wrong));
  }
  return text;
}

std::string phases_text(const RunDiagnosis& findings) {
  const std::string magnitude = "|" + letter_of(findings.sampled) + "|";
  std::string text =
      formatted("\nCritic loss, entropy of the policy (nats) and mean %s by phase of the task\n", magnitude.c_str());
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    text += formatted("%-10s %-16s %9s  %12s  %8s  %8s  %10s\n", name, "phase", "steps", "critic loss", "share, %",
                      "entropy", magnitude.c_str());
    for (const PhaseFigures& phase : found->phases)
      text += formatted("%-10s %-16s %9lld  %12.4g  %8.1f  %8.3f  %10.4g\n", "", phase.phase.c_str(),
                        static_cast<long long>(phase.steps), phase.squared_error, 100 * phase.error_share,
                        phase.entropy, phase.absolute_value);
  }
  return text;
}

std::string moment_text(const CueReadout& read, const Diagnosis& found) {
  return read.lag ? std::to_string(*read.lag) : found.decisions->phase + " begins";
}

std::string cue_text(const RunDiagnosis& findings) {
  std::string text = "\nCue read from h_t by a linear map, %, so many steps after it was last seen\n";
  for (const auto& [name, found] : all_kinds(findings)) {
    if (found == nullptr) continue;
    if (found->cue.empty()) {
      text += formatted("%-10s none: a read-out takes %lld episodes and two different cues out of sight\n", name,
                        static_cast<long long>(Diagnosis::kFewestReadOut));
      continue;
    }
    text += formatted("%-10s %-16s %9s  %-22s  %s\n", name, "steps", "episodes", "read rightly", "commonest cue");
    for (const CueReadout& read : found->cue)
      text += formatted(
          "%-10s %-16s %9lld  %-22s  %5.1f\n", "", moment_text(read, *found).c_str(),
          static_cast<long long>(read.readout.count), interval_text(read.readout.correct, read.readout.count).c_str(),
          100.0 * static_cast<double>(read.readout.most_common) / static_cast<double>(read.readout.count));
  }
  return text;
}

}  // namespace

std::string findings_text(const RunDiagnosis& findings, std::optional<double> chance) {
  return successes_text(findings, chance) + decisions_text(findings) + phases_text(findings) + cue_text(findings);
}

}  // namespace engram
