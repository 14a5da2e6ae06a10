#include "experiments/statistics/aggregate.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

#include "agents/study/statistics.h"
#include "base/error.h"
#include "base/text/words.h"

namespace engram {
namespace {

constexpr double kTrimmed = 0.25;

void check(const TaskScores& scores) {
  if (scores.empty()) throw std::invalid_argument("scores of no task");
  for (const std::vector<double>& runs : scores)
    if (runs.empty()) throw std::invalid_argument("a task without a run");
}

// Whether it can be drawn again otherwise than it is.
bool has_interval(const TaskScores& scores) {
  return std::ranges::all_of(scores, [](const std::vector<double>& runs) { return runs.size() >= 2; });
}

double median_in_place(std::vector<double>& values) {
  std::sort(values.begin(), values.end());
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

// 1, 1/2 or 0.
double wins(double x, double y) { return x > y ? 1 : x == y ? 0.5 : 0; }

// The runs of one method, in ascending order of their scores, so that a resample is a number for each of them.
struct SortedRuns {
  std::vector<double> score;
  std::vector<std::size_t> task;
  std::vector<std::vector<std::size_t>> places;  // of each task's runs
  std::vector<std::size_t> above;                // first run above each threshold of the profile

  explicit SortedRuns(const TaskScores& scores) : places(scores.size()) {
    std::vector<std::pair<double, std::size_t>> runs;
    for (std::size_t t = 0; t < scores.size(); ++t)
      for (const double value : scores[t]) runs.emplace_back(value, t);
    std::sort(runs.begin(), runs.end());
    for (const auto& [value, t] : runs) {
      places[t].push_back(score.size());
      score.push_back(value);
      task.push_back(t);
    }
    for (int i = 0; i < kProfileThresholds; ++i)
      above.push_back(
          static_cast<std::size_t>(std::upper_bound(score.begin(), score.end(), profile_threshold(i)) - score.begin()));
  }

  std::size_t tasks() const { return places.size(); }
  // How often each run is drawn.
  void draw(std::uint64_t seed, std::size_t first_stratum, std::size_t resample, std::vector<int>& times) const {
    times.assign(score.size(), 0);
    for (std::size_t t = 0; t < tasks(); ++t) {
      BootstrapDraws draws(seed, first_stratum + t, resample);
      for (std::size_t i = 0; i < places[t].size(); ++i) ++times[places[t][draws.below(places[t].size())]];
    }
  }
};

// All figures of one method from how often each run counts.
enum Statistic { kIqm, kMean, kMedian, kGap, kProfile, kFigures = kProfile + kProfileThresholds };

struct Scratch {
  std::vector<int> times;
  std::vector<double> values;
  std::vector<long double> sums, capped_sums;  // divided once, so that equal scores have themselves as their mean
  std::vector<std::int64_t> above;             // runs, of each task
};

void compute_figures(const SortedRuns& runs, Scratch& scratch, double* figures) {
  const std::size_t count = runs.score.size(), tasks = runs.tasks();
  const auto cut = static_cast<std::int64_t>(kTrimmed * static_cast<double>(count));
  const std::int64_t end = static_cast<std::int64_t>(count) - cut;
  std::int64_t seen = 0;
  long double kept = 0;
  scratch.sums.assign(tasks, 0);
  scratch.capped_sums.assign(tasks, 0);
  for (std::size_t i = 0; i < count; ++i) {
    const std::int64_t times = scratch.times[i];
    const std::int64_t inside = std::min(seen + times, end) - std::max(seen, cut);
    if (inside > 0) kept += static_cast<long double>(runs.score[i]) * static_cast<long double>(inside);
    seen += times;
    const auto weight = static_cast<long double>(times);
    scratch.sums[runs.task[i]] += weight * runs.score[i];
    scratch.capped_sums[runs.task[i]] += weight * std::min(runs.score[i], 1.0);
  }
  const auto runs_in = [&](std::size_t task) { return static_cast<long double>(runs.places[task].size()); };
  const auto by_task = [&](const auto& sums) -> std::vector<double>& {
    scratch.values.resize(tasks);
    for (std::size_t t = 0; t < tasks; ++t)
      scratch.values[t] = static_cast<double>(static_cast<long double>(sums[t]) / runs_in(t));
    return scratch.values;
  };
  figures[kIqm] = static_cast<double>(kept / static_cast<long double>(end - cut));
  figures[kGap] = 1 - mean_of(by_task(scratch.capped_sums));
  figures[kMean] = mean_of(by_task(scratch.sums));
  figures[kMedian] = median_in_place(scratch.values);
  scratch.above.assign(tasks, 0);
  double fraction = 0;
  for (std::size_t i = kProfileThresholds, run = count; i-- > 0;) {
    const std::size_t before = run;
    for (; run > runs.above[i]; --run) scratch.above[runs.task[run - 1]] += scratch.times[run - 1];
    if (run < before) fraction = mean_of(by_task(scratch.above));
    figures[kProfile + i] = fraction;
  }
}

MethodScores method_scores(const std::string& method, const TaskScores& scores, std::size_t first_stratum,
                           const BootstrapOptions& options) {
  const SortedRuns runs(scores);
  Scratch once;
  once.times.assign(runs.score.size(), 1);
  std::vector<double> value(kFigures);
  compute_figures(runs, once, value.data());

  std::vector<Estimate> estimates(kFigures);
  for (std::size_t figure = 0; figure < kFigures; ++figure) estimates[figure].value = value[figure];
  if (has_interval(scores)) {
    BootstrapDistribution distribution(kFigures, options);
    for_each_resample<Scratch>(options, [&](std::size_t resample, Scratch& scratch) {
      runs.draw(options.seed, first_stratum, resample, scratch.times);
      double figures[kFigures];
      compute_figures(runs, scratch, figures);
      for (std::size_t figure = 0; figure < kFigures; ++figure) distribution.set(figure, resample, figures[figure]);
    });
    for (std::size_t figure = 0; figure < kFigures; ++figure)
      estimates[figure] = distribution.estimate(figure, value[figure]);
  }
  return {method,           estimates[kIqm],
          estimates[kMean], estimates[kMedian],
          estimates[kGap],  {estimates.begin() + kProfile, estimates.end()}};
}

// How often the runs of a method are drawn in a resample, task by task from the lowest score to the highest: of each
// task's n runs n + 1 sums, of the first 0, 1 ... n.
class DrawnSums {
 public:
  DrawnSums(const TaskScores& scores, std::size_t first_stratum) : first_stratum_(first_stratum), sorted_(scores) {
    for (std::vector<double>& runs : sorted_) std::sort(runs.begin(), runs.end());
  }

  const TaskScores& sorted() const { return sorted_; }
  void draw(std::uint64_t seed, std::size_t resample, std::vector<int>& sums) const {
    sums.clear();
    for (std::size_t t = 0; t < sorted_.size(); ++t) {
      const std::size_t first = sums.size(), count = sorted_[t].size();
      sums.resize(first + count + 1);
      BootstrapDraws draws(seed, first_stratum_ + t, resample);
      for (std::size_t i = 0; i < count; ++i) ++sums[first + draws.below(count) + 1];
      for (std::size_t i = first; i < first + count; ++i) sums[i + 1] += sums[i];
    }
  }

 private:
  std::size_t first_stratum_;
  TaskScores sorted_;
};

// Of two methods x and y: Mann and Whitney's U from what was drawn of either.
class DrawnWins {
 public:
  DrawnWins(std::size_t x, std::size_t y, const std::vector<DrawnSums>& methods) : x_(x), y_(y) {
    const TaskScores &of_x = methods[x].sorted(), &of_y = methods[y].sorted();
    std::size_t first = 0;
    for (std::size_t t = 0; t < of_x.size(); ++t) {
      const std::vector<double>& theirs = of_y[t];
      for (const double score : of_x[t]) {
        const auto [low, high] = std::ranges::equal_range(theirs, score);
        below_.push_back({first + static_cast<std::size_t>(low - theirs.begin()),
                          first + static_cast<std::size_t>(high - theirs.begin())});
      }
      first += theirs.size() + 1;
      shapes_.emplace_back(of_x[t].size(), static_cast<double>(of_x[t].size() * theirs.size()));
    }
  }

  // sums: those of every method. Mean over tasks of U / (n_x n_y).
  double probability(const std::vector<std::vector<int>>& sums) const {
    const int *own = sums[x_].data(), *theirs = sums[y_].data();
    const std::array<std::size_t, 2>* place = below_.data();
    double probability = 0;
    for (const auto& [count, pairs] : shapes_) {
      int twice = 0;  // a win counts 2, a tie 1
      for (std::size_t i = 0; i < count; ++i, ++place)
        twice += (own[i + 1] - own[i]) * (theirs[(*place)[0]] + theirs[(*place)[1]]);
      own += count + 1;
      probability += twice / 2.0 / pairs;
    }
    return probability / static_cast<double>(shapes_.size());
  }

 private:
  std::size_t x_, y_;
  std::vector<std::array<std::size_t, 2>> below_;  // of each run of x: y's sums of what is below it, and not above it
  std::vector<std::pair<std::size_t, double>> shapes_;  // of each task: runs of x, pairs
};

// Of every two methods, the first with the second and so on: each resample is drawn once for all of them.
std::vector<Estimate> improvements(const std::vector<TaskScores>& scores, const std::vector<std::size_t>& first_strata,
                                   const BootstrapOptions& options) {
  constexpr std::size_t kPairsAtOnce = 128;  // 50 MB of 50,000 resamples
  std::vector<DrawnSums> methods;
  for (std::size_t m = 0; m < scores.size(); ++m) methods.emplace_back(scores[m], first_strata[m]);
  std::vector<Estimate> estimates;
  std::vector<std::pair<std::size_t, DrawnWins>> pairs;  // with its estimate
  const auto resample_pairs = [&] {
    if (pairs.empty()) return;
    BootstrapDistribution distribution(pairs.size(), options);
    using Sums = std::vector<std::vector<int>>;
    for_each_resample<Sums>(options, [&](std::size_t resample, Sums& sums) {
      sums.resize(methods.size());
      for (std::size_t m = 0; m < methods.size(); ++m) methods[m].draw(options.seed, resample, sums[m]);
      for (std::size_t i = 0; i < pairs.size(); ++i) distribution.set(i, resample, pairs[i].second.probability(sums));
    });
    for (std::size_t i = 0; i < pairs.size(); ++i) {
      Estimate& estimate = estimates[pairs[i].first];
      estimate = distribution.estimate(i, estimate.value);
    }
    pairs.clear();
  };
  for (std::size_t x = 0; x < scores.size(); ++x) {
    for (std::size_t y = x + 1; y < scores.size(); ++y) {
      if (has_interval(scores[x]) && has_interval(scores[y]))
        pairs.emplace_back(estimates.size(), DrawnWins(x, y, methods));
      estimates.push_back({probability_of_improvement(scores[x], scores[y]), {}});
      if (pairs.size() == kPairsAtOnce) resample_pairs();
    }
  }
  resample_pairs();
  return estimates;
}

// The mean of tasks, of values that are resampled together.
Estimate resampled_mean(const TaskScores& values, std::size_t first_stratum, const BootstrapOptions& options) {
  Estimate estimate{mean_of_tasks(values), {}};
  if (!has_interval(values)) return estimate;
  BootstrapDistribution distribution(1, options);
  for_each_resample<std::vector<double>>(options, [&](std::size_t resample, std::vector<double>& means) {
    means.clear();
    for (std::size_t t = 0; t < values.size(); ++t) {
      BootstrapDraws draws(options.seed, first_stratum + t, resample);
      long double sum = 0;
      for (std::size_t i = 0; i < values[t].size(); ++i) sum += values[t][draws.below(values[t].size())];
      means.push_back(static_cast<double>(sum / static_cast<long double>(values[t].size())));
    }
    distribution.set(0, resample, mean_of(means));
  });
  return distribution.estimate(0, estimate.value);
}

std::vector<double> runs_of(const ScoreTable& table, std::size_t task, std::size_t method) {
  std::vector<double> runs;
  for (std::size_t seed = 0; seed < table.seeds.size(); ++seed)
    if (const auto& score = table.at(task, method, seed)) runs.push_back(*score);
  return runs;
}

// What is missing, a sentence for each task and all methods of which the same is missing in it.
std::vector<std::string> missing_scores(const ScoreTable& table) {
  std::vector<std::pair<std::string, std::string>> missing;  // what, of whom
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    for (std::size_t method = 0; method < table.methods.size(); ++method) {
      const std::size_t runs = runs_of(table, task, method).size();
      if (runs == table.seeds.size()) continue;
      std::string seeds;
      for (std::size_t seed = 0; seed < table.seeds.size(); ++seed)
        if (!table.at(task, method, seed)) seeds += (seeds.empty() ? "" : ", ") + std::to_string(table.seeds[seed]);
      const std::string what = " on " + table.tasks[task] + ": " + std::to_string(runs) + " of " +
                               counted(table.seeds.size(), "run") + (runs == 1 ? " has" : " have") +
                               " a score, not seed " + seeds + (runs == 1 ? "; one run gives no interval" : "");
      const auto same = std::ranges::find(missing, what, [](const auto& sentence) { return sentence.first; });
      if (same == missing.end())
        missing.emplace_back(what, table.methods[method]);
      else
        same->second += ", " + table.methods[method];
    }
  }
  std::vector<std::string> sentences;
  for (const auto& [what, methods] : missing) sentences.push_back(methods + what);
  return sentences;
}

}  // namespace

double interquartile_mean(const TaskScores& scores) {
  check(scores);
  std::vector<double> all;
  for (const std::vector<double>& runs : scores) all.insert(all.end(), runs.begin(), runs.end());
  std::sort(all.begin(), all.end());
  const auto cut = static_cast<std::size_t>(kTrimmed * static_cast<double>(all.size()));
  return mean_of(std::span(all).subspan(cut, all.size() - 2 * cut));
}

double mean_of_tasks(const TaskScores& scores) {
  check(scores);
  std::vector<double> means;
  for (const std::vector<double>& runs : scores) means.push_back(mean_of(runs));
  return mean_of(means);
}

double median_of_tasks(const TaskScores& scores) {
  check(scores);
  std::vector<double> means;
  for (const std::vector<double>& runs : scores) means.push_back(mean_of(runs));
  return median_in_place(means);
}

double optimality_gap(const TaskScores& scores, double goal) {
  TaskScores capped = scores;
  for (std::vector<double>& runs : capped)
    for (double& score : runs) score = std::min(score, goal);
  return goal - mean_of_tasks(capped);
}

double probability_of_improvement(const TaskScores& x, const TaskScores& y) {
  check(x);
  check(y);
  if (x.size() != y.size()) throw std::invalid_argument("scores of different tasks");
  double sum = 0;
  for (std::size_t t = 0; t < x.size(); ++t) {
    double task_wins = 0;
    for (const double a : x[t])
      for (const double b : y[t]) task_wins += wins(a, b);
    sum += task_wins / static_cast<double>(x[t].size() * y[t].size());
  }
  return sum / static_cast<double>(x.size());
}

std::vector<double> performance_profile(const TaskScores& scores, std::span<const double> thresholds) {
  check(scores);
  std::vector<double> profile;
  for (const double threshold : thresholds) {
    std::vector<double> fractions;
    for (const std::vector<double>& runs : scores) {
      const auto above = std::count_if(runs.begin(), runs.end(), [&](double score) { return score > threshold; });
      fractions.push_back(static_cast<double>(above) / static_cast<double>(runs.size()));
    }
    profile.push_back(mean_of(fractions));
  }
  return profile;
}

double height_at(std::span<const std::pair<double, double>> points, double place) {
  if (points.empty()) throw std::invalid_argument("a curve without a point");
  const auto right = std::upper_bound(points.begin(), points.end(), place,
                                      [](double value, const auto& point) { return value < point.first; });
  if (right == points.begin()) return right->second;
  const auto left = right - 1;
  if (right == points.end()) return left->second;
  return left->second + (right->second - left->second) * (place - left->first) / (right->first - left->first);
}

double area_under_curve(std::span<const std::pair<double, double>> points, double end) {
  if (!(end > 0)) throw std::invalid_argument("a curve without length");
  for (std::size_t i = 1; i < points.size(); ++i)
    if (!(points[i - 1].first < points[i].first)) throw std::invalid_argument("steps of a curve do not ascend");
  double area = 0, place = 0, height = height_at(points, 0);
  const auto go_on_to = [&](double next) {
    const double next_height = height_at(points, next);
    area += (next - place) * (height + next_height) / 2;
    place = next;
    height = next_height;
  };
  for (const auto& point : points)
    if (point.first > 0 && point.first < end) go_on_to(point.first);
  go_on_to(end);
  return area / end;
}

double profile_threshold(int index) { return static_cast<double>(index) / (kProfileThresholds - 1); }

AggregateScores aggregate(const ScoreTable& table, const BootstrapOptions& options,
                          const std::vector<std::string>& apart) {
  AggregateScores result;
  result.left_out = missing_scores(table);
  std::vector<std::size_t> methods, tasks;
  for (std::size_t method = 0; method < table.methods.size(); ++method) {
    bool any = false;
    for (std::size_t task = 0; task < table.tasks.size(); ++task) any = any || !runs_of(table, task, method).empty();
    if (any)
      methods.push_back(method);
    else
      result.left_out.push_back(table.methods[method] + " has no score and is left out of the figures over tasks");
  }
  if (methods.empty()) throw UserError("there is no score of " + table.metric + " yet");
  for (std::size_t task = 0; task < table.tasks.size(); ++task) {
    if (!apart.empty() && !apart[task].empty()) {
      result.left_out.push_back(table.tasks[task] + " is left out of the figures over tasks: " + apart[task]);
      continue;
    }
    std::string without;
    for (const std::size_t method : methods)
      if (runs_of(table, task, method).empty()) without += (without.empty() ? "" : ", ") + table.methods[method];
    if (without.empty()) {
      tasks.push_back(task);
      result.tasks.push_back(table.tasks[task]);
    } else {
      result.left_out.push_back(table.tasks[task] + " is left out of the figures over tasks: it has no score of " +
                                without);
    }
  }

  // Strata: the runs of every method and task, then the pairs of every two methods.
  const std::size_t all_tasks = table.tasks.size();
  for (std::size_t task = 0; task < all_tasks; ++task) {
    auto& row = result.cells.emplace_back(table.methods.size());
    for (std::size_t method = 0; method < table.methods.size(); ++method)
      if (std::vector<double> runs = runs_of(table, task, method); !runs.empty())
        row[method] = resampled_mean({std::move(runs)}, method * all_tasks + task, options);
  }
  if (tasks.empty()) return result;
  std::vector<TaskScores> scores;
  std::vector<std::size_t> first_strata;
  for (const std::size_t method : methods) {
    TaskScores& own = scores.emplace_back();
    for (const std::size_t task : tasks) own.push_back(runs_of(table, task, method));
    first_strata.push_back(method * all_tasks);
    result.methods.push_back(method_scores(table.methods[method], own, first_strata.back(), options));
  }
  const std::vector<Estimate> improvement = improvements(scores, first_strata, options);
  std::size_t first_stratum = table.methods.size() * all_tasks;
  for (std::size_t x = 0; x < methods.size(); ++x) {
    for (std::size_t y = x + 1; y < methods.size(); ++y, first_stratum += all_tasks) {
      MethodComparison comparison{
          table.methods[methods[x]], table.methods[methods[y]], improvement[result.comparisons.size()], {}, 0};
      TaskScores differences;
      bool everywhere = true;
      for (const std::size_t task : tasks) {
        std::vector<double>& own = differences.emplace_back();
        for (std::size_t seed = 0; seed < table.seeds.size(); ++seed) {
          const auto &a = table.at(task, methods[x], seed), &b = table.at(task, methods[y], seed);
          if (a && b) own.push_back(*a - *b);
        }
        comparison.pairs += static_cast<int>(own.size());
        everywhere = everywhere && !own.empty();
      }
      if (everywhere) comparison.paired_difference = resampled_mean(differences, first_stratum, options);
      result.comparisons.push_back(std::move(comparison));
    }
  }
  return result;
}

}  // namespace engram
