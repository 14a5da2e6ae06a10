#include "agents/study/diagnosis_meaning.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "agents/study/statistics.h"
#include "base/text/formatted.h"

namespace engram {
namespace {

constexpr double kSolved = 0.9;                                     // of the episodes
constexpr double kNearlyAll = 0.95;                                 // of the decisions, and of the largest entropy
constexpr double kMostError = 0.9;                                  // of the critics'
constexpr double kHolds = 0.8, kLost = 0.2;                         // of knowledge()
constexpr double kTells = 0.8, kTellsInPart = 0.65, kApart = 0.15;  // areas under the curve; between two of them

std::string percent(double share) { return formatted("%.0f%%", 100 * share); }

std::string area(double value) { return formatted("%.2f", value); }

struct Decided {
  Interval decided, right;  // of the episodes, of these
};

// Of a task that says what its decision is; nothing where none is taken.
std::optional<Decided> decided_by(const Diagnosis& sampled) {
  const std::int64_t taken = sampled.decisions->right + sampled.decisions->wrong;
  if (taken == 0) return {};
  return Decided{wilson_interval(taken, sampled.episodes), wilson_interval(sampled.decisions->right, taken)};
}

bool decides_seldom(const Decided& decided) { return decided.decided.high < 0.5; }

// Whether it is its knowledge that fails it.
bool errs(const Diagnosis& sampled) {
  const std::optional<Decided> decided = decided_by(sampled);
  return decided && !decides_seldom(*decided) && decided->right.estimate < kNearlyAll;
}

// How often the memory is read rightly, from 0 (as by always naming the commonest cue) to 1.
double knowledge(const Readout& read) {
  const auto count = static_cast<double>(read.count);
  const double common = static_cast<double>(read.most_common) / count;
  return common < 1 ? (static_cast<double>(read.correct) / count - common) / (1 - common) : 0;
}

std::string read_text(const Readout& read) {
  const auto count = static_cast<double>(read.count);
  return percent(static_cast<double>(read.correct) / count) + ", the commonest cue " +
         percent(static_cast<double>(read.most_common) / count);
}

// Whether it comes to its decision, and to the right one.
std::string of_decisions(const Diagnosis& sampled, std::optional<double> chance) {
  const std::string exploration = ": this is exploration, not memory.";
  const std::optional<Decided> found = decided_by(sampled);
  if (!found) return "It never decides" + exploration;
  const Interval& right = found->right;
  const std::string share_decided = percent(found->decided.estimate) + " of the episodes" + exploration;
  if (decides_seldom(*found)) return "It decides in " + share_decided;
  if (right.estimate >= kNearlyAll) return "What it decides is right, but it decides in " + share_decided;
  const std::string share = percent(right.estimate) + " of its decisions are right";
  if (!chance) return "It decides, and " + share + ".";
  const std::string guessing = share + ", where guessing gives " + percent(*chance) + ".";
  if (right.low > *chance) return "It remembers in part: " + guessing;
  return "It decides, " +
         std::string(right.high < *chance ? "more often wrongly than by guessing: " : "and by chance: ") + guessing;
}

// Whether the cue is in h_t when it is needed.
std::string of_memory(const Diagnosis& sampled) {
  if (sampled.cue.empty()) return "The cue could not be looked for in its memory.";
  const Readout &seen = sampled.cue.front().readout, &needed = sampled.cue.back().readout;
  if (knowledge(seen) < kHolds)
    return "Even while the cue is in sight it cannot be read from h_t (" + read_text(seen) +
           "): the encoder does not show it.";
  const bool by_chance = wilson_interval(needed.correct, needed.count).low * static_cast<double>(needed.count) <=
                         static_cast<double>(needed.most_common);
  if (by_chance || knowledge(needed) <= kLost)
    return "Its memory loses the cue before it is needed (read: " + read_text(needed) + ").";
  if (knowledge(needed) < kHolds)
    return "Its memory holds the cue in part when it is needed (read: " + read_text(needed) + ").";
  return "Its memory holds the cue when it is needed (read: " + read_text(needed) + ").";
}

// Of a critic of states, which knows no action: whether it sees at the deciding step which will be right. That right
// and wrong decisions have the same value is no fault of its own, and that they have not says nothing of the policy.
std::string of_critic_of_states(double fresh, const std::string& of_fresh) {
  return std::string("Its critic ") +
         (fresh >= kTells         ? "foresees which decisions are right ("
          : fresh >= kTellsInPart ? "foresees in part which decisions are right ("
                                  : "does not foresee which decisions are right (") +
         of_fresh + ").";
}

// Whether its critics judge by the cue; empty where they were not seen to do either.
std::string of_critics(const Diagnosis& sampled, const Diagnosis* replayed) {
  const std::optional<double> fresh = sampled.decisions->value_auc;
  const double learnt = replayed != nullptr && replayed->decisions ? replayed->decisions->value_auc.value_or(0) : 0;
  if (!fresh) return "";
  const std::string of_fresh = "area " + area(*fresh) + " on fresh episodes";
  if (learnt >= kTells && learnt - *fresh >= kApart)
    return std::string(sampled.values_are_of_actions ? "Its critics know the episodes that they learnt from by heart ("
                                                     : "Its critic knows the episodes that it learnt from by heart (") +
           of_fresh + ", " + area(learnt) + " on those): more episodes and fewer updates of each help.";
  if (!sampled.values_are_of_actions) return of_critic_of_states(*fresh, of_fresh);
  if (*fresh >= kTells) return "Its critics tell right from wrong (" + of_fresh + "), and its policy does not follow.";
  return std::string("Its critics ") +
         (*fresh >= kTellsInPart ? "tell right from wrong in part (" : "do not tell right from wrong (") + of_fresh +
         ").";
}

// Of actions drawn uniformly, nats.
double entropy_at_random(const ActionSpec& action) {
  if (!action.continuous()) return std::log(action.names.size());
  double entropy = 0;
  for (const ActionNumber& number : action.numbers) entropy += std::log(number.most - number.least);
  return entropy;
}

// What else keeps it from learning.
void add_phases(const Diagnosis& sampled, const ActionSpec& action, const std::string& surer_by,
                std::vector<std::string>& sentences) {
  const std::string& decisive = sampled.decisions->phase;
  for (const PhaseFigures& phase : sampled.phases) {
    if (phase.phase != decisive && !decisive.empty() && phase.error_share >= kMostError)
      sentences.push_back(percent(phase.error_share) + " of its " +
                          (sampled.values_are_of_actions ? "critics'" : "critic's") + " error are in the phase '" +
                          phase.phase + "', where nothing is decided: what it learns is spent there.");
    if (phase.phase == decisive && phase.entropy >= kNearlyAll * entropy_at_random(action))
      sentences.push_back(
          "Where it decides its policy is nearly uniform: " + (surer_by.empty() ? "train for longer" : surer_by) + ".");
  }
}

}  // namespace

std::string meaning_of(const Diagnosis& greedy, const Diagnosis& sampled, const Diagnosis* replayed,
                       std::optional<double> chance, const ActionSpec& actions, const std::string& surer_by) {
  if (sampled.episodes < Diagnosis::kFewestReadOut) return "too few episodes to say; take --episodes 100 or more.";
  const Interval of_greedy = wilson_interval(greedy.solved, greedy.episodes),
                 of_sampled = wilson_interval(sampled.solved, sampled.episodes);
  if (of_greedy.estimate >= kSolved) return "It solves its task: " + percent(of_greedy.estimate) + " success.";

  std::vector<std::string> sentences;
  if (of_sampled.estimate >= kSolved) {
    sentences.push_back("With sampled actions it solves its task.");
  } else if (sampled.decisions) {
    sentences.push_back(of_decisions(sampled, chance));
    if (errs(sampled)) {
      sentences.push_back(of_memory(sampled));
      sentences.push_back(of_critics(sampled, replayed));
    }
    add_phases(sampled, actions, surer_by, sentences);
  } else {
    sentences.push_back("It solves " + percent(of_sampled.estimate) + " of the episodes" +
                        (chance ? ", where guessing solves " + percent(*chance) + "." : "."));
    if (!sampled.cue.empty()) sentences.push_back(of_memory(sampled));
  }
  if (of_greedy.high < of_sampled.low)
    sentences.push_back("With sampled actions it has " + percent(of_sampled.estimate) +
                        " success, with the most probable ones " + percent(of_greedy.estimate) +
                        ": its policy is not sure enough; " + (surer_by.empty() ? "" : surer_by + " or ") +
                        "train for longer.");
  std::string text;
  for (const std::string& sentence : sentences)
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  return text;
}

std::string meaning_of(const RunDiagnosis& findings, const TrainedAgent& agent) {
  const TaskInfo info = agent.config.task.info();
  return meaning_of(findings.greedy, findings.sampled, findings.replayed ? &*findings.replayed : nullptr,
                    info.chance_success, info.action, agent.config.learner.surer_by());
}

}  // namespace engram
