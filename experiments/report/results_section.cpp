// The parts of a report that say what was measured and with what.
#include <algorithm>
#include <cstddef>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/text/formatted.h"
#include "base/text/words.h"
#include "experiments/plan/plan.h"
#include "experiments/report/answer.h"
#include "experiments/report/paper/gnuplot.h"
#include "experiments/report/published.h"
#include "experiments/report/text.h"
#include "experiments/report/writer.h"
#include "experiments/statistics/run_statistics.h"
#include "storage/build_info.h"

namespace engram {
namespace {

// The score kind of this key.
std::size_t kind_of(const std::string& key) {
  const auto found = std::ranges::find(kScoreKinds, key, &ScoreKind::key);
  return static_cast<std::size_t>(found - kScoreKinds.begin());
}

std::string return_text(const Estimate& estimate) {
  const std::string value = formatted("%.4g", estimate.value);
  const auto& interval = estimate.interval;
  if (!interval || interval->first == interval->second) return value;
  return value + formatted(" (%.4g to %.4g)", interval->first, interval->second);
}

}  // namespace

void ReportWriter::add_results() {
  heading(2, "Results");
  add_yardsticks();
  document_.add(task_table(results_, analysis_));
  add_matrix();
  add_score_table();
  add_returns();
  add_published();
  add_sweep();
  add_range();
  add_curves();
  add_over_tasks();
  add_profiles();
  add_pairs();
  add_learners();
}

// What the rows stand for that are no memories.
void ReportWriter::add_yardsticks() {
  std::set<std::string> sources;
  for (const TaskFacts& task : results_.tasks) sources.insert(task.info.name + ": " + task.info.chance_source);
  BulletList list;
  list.items.push_back(
      "chance: the success of an agent that does all else right and guesses what it should have remembered (" +
      joined({sources.begin(), sources.end()}, "; ") + ")");
  if (results_.tasks[0].random.episodes > 0)
    list.items.push_back("random play: " + count_with_commas(results_.tasks[0].random.episodes) +
                         " episodes of uniformly random actions");
  for (std::size_t backbone = 0; backbone < experiment_.backbones.size(); ++backbone)
    if (const Control control = results_.run(0, backbone, 0).plan.control; control != Control::kNone)
      list.items.push_back(experiment_.backbones[backbone].label + ": " + control_meaning(control) +
                           ", as far as it is learnt in the same steps");
  paragraph("What the memories are held against:");
  document_.add(std::move(list));
}

std::string ReportWriter::own_figures(std::size_t task, std::size_t backbone,
                                      const std::function<std::string(const RunResult&)>& figure) const {
  std::vector<std::string> figures;
  for (std::size_t seed = 0; seed < experiment_.seeds.size(); ++seed) {
    const RunResult& run = results_.run(task, backbone, seed);
    if (std::string text = run.counts() ? figure(run) : ""; !text.empty()) figures.push_back(std::move(text));
  }
  return runs_line(figures);
}

void ReportWriter::add_score_table() {
  const auto& sampled = analysis_.scores[kind_of("sampled_success")].cells;
  add_by_backbone(
      "Final success",
      std::string("Final success in percent (") + kScoreKinds[0].about + "): mean of the runs and, of " +
          std::to_string(kTrustedRuns) +
          " runs and more, its 95% interval, of fewer each run's own; n: runs that finished or diverged, where it is "
          "not all of the seeds. Sampled: the mean "
          "with actions drawn from the policy instead of its most probable ones, where the two are more than 5 points "
          "apart. Of random play the interval is Wilson's over episodes.",
      [&](std::size_t task, std::size_t backbone) {
        const auto& cell = analysis_.scores[0].cells[task][backbone];
        if (!cell) return std::string("n=0");
        const std::size_t runs = successes_of(results_, task, backbone).size();
        return percent_in_lines(*cell) +
               own_figures(
                   task, backbone,
                   [](const RunResult& run) { return run.scores ? percent(run.scores->final_success) : "diverged"; }) +
               (sampled.empty() ? "" : sampled_line(*cell, sampled[task][backbone])) +
               (runs < experiment_.seeds.size() ? "\nn=" + std::to_string(runs) : "");
      },
      {{"random play",
        [&](std::size_t task) {
          const auto& [episodes, success, mean_return] = results_.tasks[task].random;
          if (episodes == 0) return std::string("-");
          return percent_in_lines({success.estimate, std::pair(success.low, success.high)});
        }},
       {"chance", [&](std::size_t task) {
          const auto& chance = results_.tasks[task].info.chance_success;
          return chance ? percent(*chance) : std::string("none");
        }}});
}

void ReportWriter::add_matrix() {
  if (std::ranges::count(drawn_, false) == 0) return;
  std::vector<std::string> tasks;
  std::vector<double> chance;
  for (const TaskFacts& task : results_.tasks) {
    tasks.push_back(task.label);
    chance.push_back(task.info.chance_success.value_or(0));
  }
  plot([&] { return matrix_plot(analysis_.scores[0], kScoreKinds[0].name, tasks, chance, methods_, folder_); });
}

void ReportWriter::add_returns() {
  bool on_policy = false;
  for (const RunResult& run : results_.runs) on_policy = on_policy || (run.scores && run.scores->mmer);
  add_by_backbone(
      "Return",
      std::string("Return, undiscounted: mean over the runs of the final evaluation's mean and, below it, of the "
                  "highest mean of any evaluation during training") +
          (on_policy ? " and of MMER, POPGym's score: the highest mean of the training episodes of an iteration"
                     : " (POPGym's MMER takes the highest mean of any batch of training episodes instead)") +
          "; of " + std::to_string(kTrustedRuns) +
          " runs and more with 95% intervals, of fewer with each run's own. Of random play the interval is Student's "
          "over episodes.",
      [&](std::size_t task, std::size_t backbone) {
        const auto& returns = analysis_.returns[task][backbone];
        if (!returns) return std::string("n=0");
        const auto own = [&](const std::function<std::optional<double>(const RunScores&)>& figure) {
          return own_figures(task, backbone, [&](const RunResult& run) {
            const std::optional<double> value =
                run.scores && has_returns(*run.scores) ? figure(*run.scores) : std::nullopt;
            return value ? formatted("%.4g", *value) : "";
          });
        };
        return return_text(returns->final) + own([](const RunScores& scores) { return scores.mean_return; }) +
               "\nbest " + return_text(returns->best) +
               own([](const RunScores& scores) { return scores.best_return; }) +
               (returns->mmer
                    ? "\nMMER " + return_text(*returns->mmer) + own([](const RunScores& scores) { return scores.mmer; })
                    : "");
      },
      {{"random play", [&](std::size_t task) {
          const auto& [episodes, success, played] = results_.tasks[task].random;
          if (episodes == 0) return std::string("-");
          return return_text({played.estimate, std::pair(played.low, played.high)});
        }}});
}

void ReportWriter::add_published() {
  const std::vector<BesidePublished> cells = beside_published(results_);
  if (!cells.empty()) document_.add(published_table(results_, cells));
}

void ReportWriter::add_sweep() {
  if (!results_.sweep) return;
  Panel panel{"", results_.sweep->key, "final success, %", {}, levels(0), /*bands=*/false};
  for (std::size_t backbone = 0; backbone < methods_.size(); ++backbone) {
    if (!drawn_[backbone]) continue;
    Curve curve{backbone, {}};
    for (std::size_t task = 0; task < results_.tasks.size(); ++task)
      if (const auto& cell = analysis_.scores[0].cells[task][backbone])
        curve.points.emplace_back(results_.sweep->values[task], *cell);
    std::sort(curve.points.begin(), curve.points.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    if (!curve.points.empty()) panel.curves.push_back(std::move(curve));
  }
  plot([&] {
    return plot_panels(folder_, "sweep",
                       "Final success against " + results_.sweep->key + ": mean over runs, of " +
                           std::to_string(kTrustedRuns) +
                           " and more with 95% bootstrap intervals; markers stand a little aside of each other." +
                           which_are_drawn(drawn_),
                       methods_, {panel});
  });
}

void ReportWriter::add_curves() {
  std::vector<Panel> panels;
  double end = 0;
  for (const auto& task : analysis_.curves)
    for (const auto& curve : task)
      if (!curve.empty()) end = std::max(end, curve.back().first);
  const double unit = end >= 3e6 ? 1e6 : end >= 3e3 ? 1e3 : 1;
  const std::string name = unit == 1e6   ? "million environment steps"
                           : unit == 1e3 ? "thousand environment steps"
                                         : "environment steps";
  for (std::size_t task = 0; task < results_.tasks.size(); ++task) {
    Panel panel{results_.tasks[task].label, name, "success, %", {}, levels(task), /*bands=*/true};
    for (std::size_t backbone = 0; backbone < methods_.size(); ++backbone) {
      if (!drawn_[backbone] || analysis_.curves[task][backbone].empty()) continue;
      Curve curve{backbone, analysis_.curves[task][backbone]};
      for (auto& point : curve.points) point.first /= unit;
      panel.curves.push_back(std::move(curve));
    }
    if (!panel.curves.empty()) panels.push_back(std::move(panel));
  }
  const bool all_known =
      std::ranges::all_of(results_.runs, [](const RunResult& run) { return !run.scores || has_curve(run); });
  if (panels.empty()) {  // of runs that are rows of an older table
    paragraph("No evaluations are known of any run: there are no curves.");
    return;
  }
  plot([&] {
    return plot_panels(folder_, "curves",
                       "Success of the greedy policy during training: mean over runs, of " +
                           std::to_string(kTrustedRuns) +
                           " and more with bands of 95% bootstrap intervals (pointwise). After the end of a run "
                           "that stopped early its last evaluation is held." +
                           (all_known ? ""
                                      : " Over the runs whose evaluations are known, where these are at least "
                                        "half.") +
                           which_are_drawn(drawn_),
                       methods_, panels);
  });
}

void ReportWriter::add_over_tasks() {
  if (experiment_.tasks.size() < 2) return;  // over one task there is nothing to be said that its own row does not say
  heading(3, "Over all tasks");
  if (analysis_.scores[0].tasks.empty()) {
    paragraph(
        "There is no task that may tell memories apart and in which every backbone has a run that counts: no figure "
        "over tasks can be given.");
    return;
  }
  if (analysis_.scores[0].tasks.size() < experiment_.tasks.size())
    paragraph(
        "These figures are over the tasks that tell memories apart, or may, and in which every backbone has a run "
        "that counts: " +
        joined(analysis_.scores[0].tasks) + ".");
  for (std::size_t kind = 0; kind < kScoreKinds.size(); ++kind)
    if (!analysis_.scores[kind].methods.empty())
      document_.add(over_tasks_table(analysis_.scores[kind], kScoreKinds[kind].name, kScoreKinds[kind].about));
  plot([&] { return over_tasks_plot(analysis_.scores[0], kScoreKinds[0].name, methods_, folder_); });
}

void ReportWriter::add_profiles() {
  if (experiment_.tasks.size() >= 2 && !analysis_.scores[0].methods.empty())
    plot([&] { return profiles_plot(analysis_.scores[0], kScoreKinds[0].name, methods_, drawn_, folder_); });
}

void ReportWriter::add_pairs() {
  if (analysis_.scores[0].comparisons.empty()) return;
  heading(3, "Backbone against backbone");
  TextTable pairs = pairs_table(analysis_.scores[0], kScoreKinds[0].name);
  document_.add(FoldBegin{counted(pairs.rows.size(), "pair")});
  document_.add(std::move(pairs));
  document_.add(FoldEnd{});
}

void ReportWriter::add_reproduction() {
  heading(2, "To do it again");
  if (results_.of_comparison())
    add_commands();
  else if (results_.settings_known)
    add_commands_of_plain_runs();

  std::map<Provenance, int> versions;
  std::map<std::string, int> roads;
  for (const RunResult& run : results_.runs) {
    if (!run.scores) continue;
    ++roads[run.provenance.roads];
    Provenance version = run.provenance;
    version.roads.clear();
    ++versions[version];
  }
  TextTable table{"What the finished runs were made with.",
                  {"engram", "commit", "build", "compiler", "LibTorch", "device", "CPU cores", "runs"},
                  {},
                  6};
  for (const auto& [version, runs] : versions)
    table.rows.push_back({version.engram, version.commit, version.build_type, version.compiler, version.libtorch,
                          version.device, version.cpu_cores, std::to_string(runs)});
  document_.add(std::move(table));
  roads.erase("");
  if (!roads.empty()) {
    TextTable by_road{"What computed the agents on a GPU.", {"parts", "runs"}, {}, 1};
    for (const auto& [parts, runs] : roads) by_road.rows.push_back({parts, std::to_string(runs)});
    document_.add(std::move(by_road));
  }
  const BuildInfo& build = build_info();
  const std::optional<std::string> gnuplot = plots_ == Plots::kNone ? std::nullopt : gnuplot_version();
  paragraph("This page was made by engram " + build.version + " (commit " + build.commit + ")" +
            (gnuplot ? " and " + *gnuplot : "") + ", bootstrap seed " + std::to_string(bootstrap_.seed) + ".");
}

}  // namespace engram
