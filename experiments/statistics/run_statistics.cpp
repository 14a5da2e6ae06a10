#include "experiments/statistics/run_statistics.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstddef>
#include <functional>
#include <numeric>
#include <utility>

#include "experiments/report/text.h"

namespace engram {
namespace {

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::size_t place_of(const std::vector<PlottedMethod>& methods, const std::string& label) {
  const auto found =
      std::find_if(methods.begin(), methods.end(), [&](const PlottedMethod& method) { return method.label == label; });
  return static_cast<std::size_t>(found - methods.begin());
}

// The mean of a method's scores over the tasks that it has one of.
double mean_of_cells(const AggregateScores& scores, std::size_t method) {
  double sum = 0;
  int tasks = 0;
  for (const auto& of_task : scores.cells)
    if (const auto& cell = of_task[method]) {
      sum += cell->value;
      ++tasks;
    }
  return tasks > 0 ? sum / tasks : -1;
}

// Places of methods, the best first.
std::vector<std::size_t> by_mean(const AggregateScores& scores, std::size_t methods) {
  std::vector<std::size_t> places(methods);
  std::iota(places.begin(), places.end(), 0);
  std::ranges::stable_sort(places, std::greater(), [&](std::size_t method) { return mean_of_cells(scores, method); });
  return places;
}

}  // namespace

AggregateScores with_trusted_intervals(AggregateScores scores, const ScoreTable& table) {
  if (scores.cells.empty()) return scores;  // no run has such a score
  const auto place = [](const std::vector<std::string>& labels, const std::string& label) {
    return static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
  };
  // Runs of the task with a score of each of the methods.
  const auto runs = [&](std::size_t task, const std::vector<std::size_t>& methods) {
    int count = 0;
    for (std::size_t seed = 0; seed < table.seeds.size(); ++seed)
      count +=
          std::ranges::all_of(methods, [&](std::size_t method) { return table.at(task, method, seed).has_value(); });
    return count;
  };
  const auto check = [](Estimate& estimate, int count) {
    if (count < kTrustedRuns) estimate.interval.reset();
  };
  // In the task with the fewest of those that the figures are over.
  const auto fewest = [&](const std::vector<std::size_t>& methods) {
    int least = kTrustedRuns;
    for (const std::string& task : scores.tasks) least = std::min(least, runs(place(table.tasks, task), methods));
    return least;
  };
  for (std::size_t task = 0; task < table.tasks.size(); ++task)
    for (std::size_t method = 0; method < table.methods.size(); ++method)
      if (auto& cell = scores.cells[task][method]) check(*cell, runs(task, {method}));
  for (MethodScores& method : scores.methods) {
    const int count = fewest({place(table.methods, method.method)});
    for (Estimate* figure : {&method.interquartile_mean, &method.mean, &method.median, &method.optimality_gap})
      check(*figure, count);
    for (Estimate& figure : method.profile) check(figure, count);
  }
  for (MethodComparison& pair : scores.comparisons) {
    const std::size_t x = place(table.methods, pair.x), y = place(table.methods, pair.y);
    check(pair.probability_of_improvement, std::min(fewest({x}), fewest({y})));
    if (pair.paired_difference) check(*pair.paired_difference, fewest({x, y}));
  }
  return scores;
}

TextTable over_tasks_table(const AggregateScores& scores, const std::string& metric, const std::string& about) {
  TextTable table{capitalised(metric) + ", percent (95% interval)" + (about.empty() ? "" : ": " + about),
                  {"backbone", "interquartile mean", "mean", "median of tasks", "optimality gap"},
                  {}};
  for (const MethodScores& method : scores.methods)
    table.rows.push_back({method.method, percent(method.interquartile_mean), percent(method.mean),
                          percent(method.median), percent(method.optimality_gap)});
  return table;
}

Figure over_tasks_plot(const AggregateScores& scores, const std::string& metric,
                       const std::vector<PlottedMethod>& methods, const PlotFolder& folder) {
  std::vector<IntervalPanel> panels = {
      {"interquartile mean, %", {}}, {"mean, %", {}}, {"median of tasks, %", {}}, {"optimality gap, %", {}}};
  for (const MethodScores& method : scores.methods) {
    const std::size_t place = place_of(methods, method.method);
    panels[0].rows.emplace_back(place, method.interquartile_mean);
    panels[1].rows.emplace_back(place, method.mean);
    panels[2].rows.emplace_back(place, method.median);
    panels[3].rows.emplace_back(place, method.optimality_gap);
  }
  return plot_intervals(folder, "over_tasks",
                        capitalised(metric) +
                            " over all tasks: markers are the figures, bars their 95% bootstrap intervals, of " +
                            std::to_string(kTrustedRuns) +
                            " runs a task and more. Of the optimality gap, how far from 100% the runs are, less is "
                            "better.",
                        methods, panels);
}

std::vector<bool> methods_to_draw(const AggregateScores& scores, const std::vector<PlottedMethod>& methods,
                                  const std::string& reference) {
  if (methods.size() <= kMostCurves) return std::vector<bool>(methods.size(), true);
  std::vector<bool> drawn;
  for (const PlottedMethod& method : methods) drawn.push_back(method.control || method.label == reference);
  for (const std::size_t method : by_mean(scores, methods.size()))
    if (std::ranges::count(drawn, true) < static_cast<std::ptrdiff_t>(kMostCurves)) drawn[method] = true;
  return drawn;
}

std::string which_are_drawn(const std::vector<bool>& drawn) {
  const auto count = static_cast<std::size_t>(std::ranges::count(drawn, true));
  if (count == drawn.size()) return "";
  return " Of the " + std::to_string(drawn.size()) + " backbones " + std::to_string(count) +
         ": controls, the reference and those with the highest means.";
}

Figure matrix_plot(const AggregateScores& scores, const std::string& metric, const std::vector<std::string>& tasks,
                   const std::vector<double>& chance, const std::vector<PlottedMethod>& methods,
                   const PlotFolder& folder) {
  Matrix matrix{{}, tasks, {}, chance};
  std::vector<std::size_t> order = by_mean(scores, methods.size());
  // A mean over the easier tasks alone is no place before others.
  std::ranges::stable_sort(order, {}, [&](std::size_t method) {
    return std::pair(methods[method].control,
                     std::ranges::count_if(scores.cells, [&](const auto& task) { return !task[method]; }));
  });
  for (const std::size_t method : order) {
    matrix.rows.push_back(methods[method].label);
    matrix.cells.emplace_back();
    for (std::size_t task = 0; task < tasks.size(); ++task) {
      const auto& cell = scores.cells[task][method];
      matrix.cells.back().push_back(cell ? std::optional(cell->value) : std::nullopt);
    }
  }
  return plot_matrix(folder, "matrix",
                     capitalised(metric) +
                         " in percent, mean over runs, coloured from chance to 100%: backbones in the order of their "
                         "means, those without runs of some tasks behind the others, and the controls.",
                     matrix);
}

Figure profiles_plot(const AggregateScores& scores, const std::string& metric,
                     const std::vector<PlottedMethod>& methods, const std::vector<bool>& drawn,
                     const PlotFolder& folder) {
  Panel panel{"", metric + " above, %", "fraction of runs, %", {}, {}, /*bands=*/true};
  for (const MethodScores& method : scores.methods) {
    Curve curve{place_of(methods, method.method), {}};
    if (!drawn[curve.method]) continue;
    for (int i = 0; i < kProfileThresholds; ++i)
      curve.points.emplace_back(100 * profile_threshold(i), method.profile[static_cast<std::size_t>(i)]);
    panel.curves.push_back(std::move(curve));
  }
  return plot_panels(folder, "profiles",
                     "Performance profiles: the fraction of runs whose " + metric +
                         " is above what the axis says, mean over tasks, of " + std::to_string(kTrustedRuns) +
                         " runs a task and more with 95% bootstrap bands (pointwise)." + which_are_drawn(drawn),
                     methods, {panel});
}

TextTable pairs_table(const AggregateScores& scores, const std::string& metric) {
  TextTable table{capitalised(metric) +
                      " of x against y. Probability of improvement: that a run of x is better than one of y, a tie "
                      "counted half, mean over tasks. Difference: x - y in percentage points, of runs of the same task "
                      "and seed, resampled in pairs.",
                  {"x", "y", "probability of improvement, %", "paired difference, points", "pairs"},
                  {},
                  2};
  for (const MethodComparison& pair : scores.comparisons)
    table.rows.push_back({pair.x, pair.y, percent(pair.probability_of_improvement),
                          pair.paired_difference ? percent(*pair.paired_difference) : "no pairs in some task",
                          std::to_string(pair.pairs)});
  return table;
}

std::string percent_in_lines(const Estimate& estimate) {
  std::string text = percent(estimate);
  if (const std::size_t blank = text.find(' '); blank != std::string::npos) text[blank] = '\n';
  return text;
}

std::string runs_line(const std::vector<std::string>& figures) {
  if (figures.size() < 2 || figures.size() >= static_cast<std::size_t>(kTrustedRuns)) return "";
  return "\nruns " + joined(figures);
}

std::string sampled_line(const Estimate& greedy, const std::optional<Estimate>& sampled) {
  constexpr double kFar = 0.05;
  if (!sampled || std::abs(sampled->value - greedy.value) <= kFar) return "";
  return "\nsampled " + percent(sampled->value);
}

std::string about_intervals(const BootstrapOptions& bootstrap) {
  return "Intervals are 95% percentile intervals of " + count_with_commas(bootstrap.resamples) +
         " stratified bootstrap resamples (runs drawn with replacement within each task), as in rliable (Agarwal et "
         "al. 2021). They say how far the figures could be elsewhere with other seeds; a figure stands alone where all "
         "its runs have the same score, whatever more runs would show, and where fewer than " +
         std::to_string(kTrustedRuns) + " runs of a task stand behind it: an interval of so few is not to be trusted.";
}

}  // namespace engram
