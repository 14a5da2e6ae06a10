// What tuning has chosen, and whether the order of the memories holds across learners.
#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/plan.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/rank_agreement.h"
#include "experiments/statistics/run_statistics.h"

namespace engram {
namespace {

// The rows of a report by memory and learner, controls left out.
struct LearnerRows {
  std::vector<std::string> learners, memories;                     // in the order of the rows
  std::map<std::pair<std::string, std::string>, std::size_t> row;  // of (memory, learner)

  explicit LearnerRows(const Results& results) {
    const auto add = [](std::vector<std::string>& labels, const std::string& label) {
      if (std::ranges::find(labels, label) == labels.end()) labels.push_back(label);
    };
    for (std::size_t i = 0; i < results.experiment.backbones.size(); ++i) {
      const PlannedRun& plan = results.run(0, i, 0).plan;
      if (plan.control != Control::kNone || plan.learner.empty()) continue;
      add(learners, plan.learner);
      add(memories, plan.backbone);
      row[{plan.backbone, plan.learner}] = i;
    }
  }
};

// Over these tasks, in which some memory has runs by both.
LearnerOrder order_over(const Results& results, const LearnerRows& rows, const std::vector<std::size_t>& tasks,
                        const std::string& x, const std::string& y, const BootstrapOptions& bootstrap) {
  LearnerOrder order{x, y, {}, {}, 0, {}};
  for (const std::size_t task : tasks) order.tasks.push_back(results.tasks[task].label);
  std::vector<TaskScores> of_x, of_y;
  std::size_t fewest = results.experiment.seeds.size();
  for (const std::string& memory : rows.memories) {
    const auto by_x = rows.row.find({memory, x}), by_y = rows.row.find({memory, y});
    if (by_x == rows.row.end() || by_y == rows.row.end()) continue;
    TaskScores in_x, in_y;
    for (const std::size_t task : tasks) {
      in_x.push_back(successes_of(results, task, by_x->second));
      in_y.push_back(successes_of(results, task, by_y->second));
    }
    const auto is_empty = [](const std::vector<double>& runs) { return runs.empty(); };
    if (std::ranges::any_of(in_x, is_empty) || std::ranges::any_of(in_y, is_empty)) continue;
    for (const TaskScores* const scores : {&in_x, &in_y})
      for (const std::vector<double>& runs : *scores) fewest = std::min(fewest, runs.size());
    order.memories.push_back(memory);
    of_x.push_back(std::move(in_x));
    of_y.push_back(std::move(in_y));
  }
  order.fewest_runs = order.memories.empty() ? 0 : static_cast<int>(fewest);
  if (order.memories.size() > 1) order.tau = rank_agreement(of_x, of_y, bootstrap);
  return order;
}

}  // namespace

std::vector<LearnerOrder> orders_by_learner(const Results& results, const BootstrapOptions& bootstrap) {
  std::vector<LearnerOrder> orders;
  const LearnerRows rows(results);
  for (std::size_t i = 0; i < rows.learners.size(); ++i)
    for (std::size_t j = i + 1; j < rows.learners.size(); ++j) {
      const auto order = [&](const std::vector<std::size_t>& tasks, const BootstrapOptions& options) {
        return order_over(results, rows, tasks, rows.learners[i], rows.learners[j], options);
      };
      std::vector<std::size_t> tasks;
      for (std::size_t task = 0; task < results.tasks.size(); ++task)
        if (!order({task}, {.resamples = 1}).memories.empty()) tasks.push_back(task);
      if (tasks.empty()) continue;
      orders.push_back(order(tasks, bootstrap));
      if (tasks.size() > 1)
        for (const std::size_t task : tasks) orders.push_back(order({task}, bootstrap));
    }
  return orders;
}

void ReportWriter::add_learners() {
  if (analysis_.orders.empty()) return;
  heading(3, "Whether the order of the memories holds across learners");
  TextTable table{
      "Kendall's tau-b of the memories' " + std::string(kScoreKinds[0].name) +
          " by two learners, controls left out: 1 where both put them in the same order, 0 where one order says "
          "nothing of the other, -1 where they are opposite. A memory's score is the mean over tasks of the mean of "
          "its runs; with 95% intervals of " +
          std::to_string(kTrustedRuns) + " runs of each and more.",
      {"learners", "tasks", "memories", "tau"},
      {},
      2};
  for (const LearnerOrder& order : analysis_.orders) {
    std::string tau = order.memories.size() < 2 ? "- (too few memories)" : "- (one learner tells none apart)";
    if (order.tau) {
      tau = formatted("%.2f", order.tau->value);
      if (const auto& interval = order.tau->interval; interval && order.fewest_runs >= kTrustedRuns)
        tau += formatted(" (%.2f to %.2f)", interval->first, interval->second);
    }
    table.rows.push_back(
        {order.x + " and " + order.y, joined(order.tasks), std::to_string(order.memories.size()), tau});
  }
  document_.add(std::move(table));
}

void ReportWriter::add_tuning() {
  if (results_.tuning.empty()) return;
  const TuneOptions& tune = results_.planned.tune.value();
  heading(3, "Tuning");
  std::vector<std::string> tried;
  for (const TunedSetting& setting : tune.settings) tried.push_back(setting.key + " of " + joined(setting.values));
  std::vector<std::string> rungs;
  for (const double rung : tune.rungs) rungs.push_back(formatted("%g%%", 100 * rung));
  paragraph("Before the runs above, settings were chosen for each task and backbone" +
            std::string(results_.planned.has_learners() ? " and learner" : "") + ": " + joined(tried, "; ") +
            ". As many tries for every memory (controls that lack a setting have fewer), " +
            (tune.tries == 0 ? "all of the grid"
                             : std::to_string(tune.tries) + " of the grid at most, drawn by seed " +
                                   std::to_string(tune.draw_seed)) +
            ", on seeds of their own (" + seeds_text(tune.seeds) +
            "), by successive halving (Jamieson and Talwalkar 2016): after " + joined(rungs) +
            " of the steps the best " + formatted("%g%%", 100 * tune.keep) +
            " go on, by the success of the final evaluation, then its return. No figure above has a run of these; the "
            "CSV has all of them, in the state 'tuning'.");
  TextTable table{"What was chosen.", {"run", "tries", "chosen", "success in tuning, %"}, {}, 1};
  for (const TuningResult& tuning : results_.tuning) {
    const std::vector<TuneRung>& done = tuning.record.rungs;
    table.rows.push_back({tuning.plan.place(), done.empty() ? "1" : std::to_string(done.front().tries.size()),
                          !tuning.record.chosen           ? "not yet"
                          : tuning.record.chosen->empty() ? "nothing to choose"
                                                          : settings_text(*tuning.record.chosen),
                          done.empty() ? "-" : percent(mean_success(done.back().tries.front()))});
  }
  document_.add(std::move(table));
}

}  // namespace engram
