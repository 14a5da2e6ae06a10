#include "experiments/report/answer.h"

#include <algorithm>
#include <map>
#include <optional>
#include <utility>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
namespace {

constexpr double kLearns = 0.5;
constexpr std::size_t kBestNamed = 3;

bool is_memory(const Results& results, std::size_t backbone) {
  return results.run(0, backbone, 0).plan.control == Control::kNone;
}

// The mean and its interval, where enough runs stand behind it.
std::optional<Estimate> success_in(const Results& results, const Analysis& analysis, std::size_t task,
                                   std::size_t backbone) {
  if (analysis.scores[0].cells.empty()) return {};
  std::optional<Estimate> success = analysis.scores[0].cells[task][backbone];
  if (success && successes_of(results, task, backbone).size() < kTrustedRuns) success->interval.reset();
  return success;
}

// Of the backbones that `counts` the one with the highest mean in the task.
template <class Counts>
std::optional<std::size_t> best_in(const Results& results, const Analysis& analysis, std::size_t task,
                                   const Counts& counts) {
  std::optional<std::size_t> best;
  double most = -1;
  for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
    const auto success = success_in(results, analysis, task, backbone);
    if (!success || !counts(backbone) || success->value <= most) continue;
    best = backbone;
    most = success->value;
  }
  return best;
}

// Those that tell memories apart, or of which it is not known.
std::vector<std::size_t> telling_tasks(const Analysis& analysis) {
  std::vector<std::size_t> tasks;
  for (std::size_t task = 0; task < analysis.separations.size(); ++task)
    if (analysis.separations[task].tells_apart() != false) tasks.push_back(task);
  return tasks;
}

// "tasks that tell memories apart", or what is meant by it where it is not known of all.
std::string kind_of_tasks(const Analysis& analysis, const std::vector<std::size_t>& tasks) {
  const bool all_known = std::ranges::all_of(
      tasks, [&](std::size_t task) { return analysis.separations[task].tells_apart().has_value(); });
  return all_known ? "that tell memories apart" : "that may tell memories apart";
}

std::string percent_sign(const Estimate& estimate) {
  const std::string text = percent(estimate);
  const std::size_t blank = text.find(' ');
  return blank == std::string::npos ? text + "%" : text.substr(0, blank) + "%" + text.substr(blank);
}

// Who learns most of these tasks, the best first.
std::string who_learns(const Results& results, const Analysis& analysis, const std::vector<std::size_t>& tasks) {
  struct Learner {
    std::string label;
    int learnt = 0, tried = 0;
    const MethodScores* scores = nullptr;
  };
  std::vector<Learner> learners;
  for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
    if (!is_memory(results, backbone)) continue;
    Learner learner{results.experiment.backbones[backbone].label};
    for (const std::size_t task : tasks) {
      learner.learnt += learns(results, analysis, task, backbone) ? 1 : 0;
      learner.tried += success_in(results, analysis, task, backbone) ? 1 : 0;
    }
    const auto& methods = analysis.scores[0].methods;
    const auto found = std::ranges::find(methods, learner.label, &MethodScores::method);
    if (found != methods.end()) learner.scores = &*found;
    if (learner.tried > 0) learners.push_back(std::move(learner));
  }
  if (learners.empty()) return "";
  std::ranges::stable_sort(learners, [](const Learner& a, const Learner& b) {
    const auto mean = [](const Learner& learner) {
      return learner.scores == nullptr ? -1 : learner.scores->interquartile_mean.value;
    };
    return std::pair(a.learnt, mean(a)) > std::pair(b.learnt, mean(b));
  });
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < std::min(kBestNamed, learners.size()); ++i) {
    const Learner& learner = learners[i];
    std::string text = learner.label + " learns " + std::to_string(learner.learnt);
    if (i == 0) text += " of " + counted(tasks.size(), "task") + " " + kind_of_tasks(analysis, tasks);
    if (learner.scores != nullptr && analysis.scores[0].tasks.size() > 1)
      text +=
          (i == 0 ? ", with an interquartile mean of " : ", with ") + percent_sign(learner.scores->interquartile_mean);
    texts.push_back(std::move(text));
  }
  std::string answer = joined(texts, "; ") + ".";
  if (learners.size() > kBestNamed) {
    const auto none = std::ranges::count(learners, 0, &Learner::learnt);
    answer += " Of the other " + counted(learners.size() - kBestNamed, "memory", "memories") + " " +
              (none == 0 ? "each learns at least one of them." : std::to_string(none) + " learn none of them.");
  }
  return answer;
}

std::string best_of_task(const Results& results, const Analysis& analysis, std::size_t task) {
  const auto best = best_in(results, analysis, task, [&](std::size_t b) { return is_memory(results, b); });
  if (!best) return "";
  return "In " + results.tasks[task].label + " " + results.experiment.backbones[*best].label + " is best, with " +
         percent_sign(*success_in(results, analysis, task, *best)) + ".";
}

// Of the tasks that say nothing why, those of one reason together.
std::string what_says_nothing(const Results& results, const Analysis& analysis) {
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  std::size_t count = 0;
  for (std::size_t task = 0; task < analysis.separations.size(); ++task) {
    const Separation& separation = analysis.separations[task];
    if (separation.tells_apart() != false) continue;
    ++count;
    const std::string reason = separation.reason();
    const auto same = std::ranges::find(reasons, reason, [](const auto& entry) { return entry.first; });
    if (same == reasons.end())
      reasons.push_back({reason, {results.tasks[task].label}});
    else
      same->second.push_back(results.tasks[task].label);
  }
  if (count == 0) return "";
  std::vector<std::string> texts;
  for (const auto& [reason, tasks] : reasons) texts.push_back("in " + joined(tasks) + " " + reason);
  return counted(count, "task") + (count == 1 ? " does" : " do") + " not tell memories apart and " +
         (count == 1 ? "is" : "are") + " in no figure over tasks: " + joined(texts, "; ") + ".";
}

std::string of_controls(const Results& results, const Analysis& analysis) {
  std::vector<std::string> texts;
  for (const MethodScores& method : analysis.scores[0].methods) {
    const auto& backbones = results.experiment.backbones;
    const auto place = static_cast<std::size_t>(std::ranges::find(backbones, method.method, &ExperimentEntry::label) -
                                                backbones.begin());
    if (!is_memory(results, place)) texts.push_back(method.method + " " + percent_sign(method.interquartile_mean));
  }
  return texts.empty() ? "" : "Beside them the controls: " + joined(texts) + ".";
}

}  // namespace

bool learns(const Results& results, const Analysis& analysis, std::size_t task, std::size_t backbone) {
  const std::optional<Estimate> success = success_in(results, analysis, task, backbone);
  if (!success) return false;
  const double chance = results.tasks[task].info.chance_success.value_or(0);
  const double sure = success->interval ? success->interval->first : success->value;
  return sure > chance + kLearns * (1 - chance);
}

std::vector<std::string> answer_of(const Results& results, const Analysis& analysis) {
  if (analysis.scores[0].cells.empty()) return {};
  std::vector<std::string> answer;
  const auto add = [&](std::string text) {
    if (!text.empty()) answer.push_back(std::move(text));
  };
  const std::vector<std::size_t> tasks = telling_tasks(analysis);
  if (tasks.empty()) {
    add("No task of this comparison tells memories apart.");
  } else {
    std::string first = who_learns(results, analysis, tasks);
    if (first.empty()) {
      add("No memory has a finished run yet.");
    } else {
      if (tasks.size() > 1) first += " " + of_controls(results, analysis);
      add(first);
      add(
          formatted("A memory learns a task if its mean, of %d runs and more the lower end of the 95%% interval, lies "
                    "more than half of the way from chance to 100%%.",
                    kTrustedRuns));
    }
    if (tasks.size() == 1) add(best_of_task(results, analysis, tasks.front()));
  }
  add(what_says_nothing(results, analysis));
  return answer;
}

TextTable task_table(const Results& results, const Analysis& analysis) {
  TextTable table{
      "Which task says something about memories. Learnt by: of the memories with runs that count. Without memory and "
      "shown all: success of the controls in percent. Intraclass correlation: how much of the spread of single runs is "
      "between memories; the rest is between seeds.",
      {"task", "tells memories apart", "best memory", "its success, %", "learnt by", "without memory, %",
       "shown all, %", "intraclass correlation"},
      {},
      3};
  for (std::size_t task = 0; task < results.tasks.size(); ++task) {
    const Separation& separation = analysis.separations[task];
    const auto control_text = [&](const auto& counts) {
      const auto best = best_in(results, analysis, task, counts);
      return best ? percent(*success_in(results, analysis, task, *best)) : std::string("-");
    };
    const auto control = [&](std::size_t backbone) { return results.run(0, backbone, 0).plan.control; };
    int learnt = 0, tried = 0;
    for (std::size_t backbone = 0; backbone < results.experiment.backbones.size(); ++backbone) {
      if (!is_memory(results, backbone) || !success_in(results, analysis, task, backbone)) continue;
      ++tried;
      learnt += learns(results, analysis, task, backbone) ? 1 : 0;
    }
    const auto best = best_in(results, analysis, task, [&](std::size_t b) { return is_memory(results, b); });
    const auto tells = separation.tells_apart();
    const auto& icc = separation.intraclass_correlation;
    table.rows.push_back(
        {results.tasks[task].label,
         !tells   ? "not known"
         : *tells ? "yes"
                  : "no",
         best ? results.experiment.backbones[*best].label : "-",
         best ? percent(*success_in(results, analysis, task, *best)) : "-",
         std::to_string(learnt) + " of " + std::to_string(tried),
         control_text([&](std::size_t b) { return control(b) == Control::kMemoryless; }),
         control_text([&](std::size_t b) {
           return control(b) == Control::kFullState || control(b) == Control::kFullStateRecurrent;
         }),
         icc ? formatted("%.2f (%.2f to %.2f)", icc->value, icc->interval->first, icc->interval->second) : "-"});
  }
  return table;
}

}  // namespace engram
