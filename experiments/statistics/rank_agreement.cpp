#include "experiments/statistics/rank_agreement.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace engram {
namespace {

using Scores = std::vector<double>;

Scores means_of(const std::vector<TaskScores>& methods) {
  Scores means;
  for (const TaskScores& method : methods) means.push_back(mean_of_tasks(method));
  return means;
}

bool has_several_runs(const std::vector<TaskScores>& methods) {
  return std::ranges::all_of(methods, [](const TaskScores& tasks) {
    return std::ranges::all_of(tasks, [](const Scores& runs) { return runs.size() > 1; });
  });
}

// The mean of every method over runs that are drawn again; `stratum`: the first that is not used yet.
Scores resampled_means(const std::vector<TaskScores>& methods, std::uint64_t seed, std::size_t resample,
                       std::size_t& stratum) {
  Scores means;
  for (const TaskScores& tasks : methods) {
    double sum_of_tasks = 0;
    for (const Scores& runs : tasks) {
      BootstrapDraws draws(seed, stratum++, resample);
      double sum = 0;
      for (std::size_t i = 0; i < runs.size(); ++i) sum += runs[draws.below(runs.size())];
      sum_of_tasks += sum / static_cast<double>(runs.size());
    }
    means.push_back(sum_of_tasks / static_cast<double>(tasks.size()));
  }
  return means;
}

}  // namespace

std::optional<double> kendall_tau(std::span<const double> x, std::span<const double> y) {
  if (x.size() != y.size()) throw std::invalid_argument("ranks of different numbers of methods");
  double difference = 0, apart_in_x = 0, apart_in_y = 0;
  for (std::size_t i = 0; i < x.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const int in_x = (x[i] > x[j]) - (x[i] < x[j]), in_y = (y[i] > y[j]) - (y[i] < y[j]);
      difference += in_x * in_y;
      apart_in_x += in_x != 0;
      apart_in_y += in_y != 0;
    }
  if (apart_in_x == 0 || apart_in_y == 0) return {};
  return difference / std::sqrt(apart_in_x * apart_in_y);
}

std::optional<Estimate> rank_agreement(const std::vector<TaskScores>& x, const std::vector<TaskScores>& y,
                                       const BootstrapOptions& options) {
  const std::optional<double> tau = kendall_tau(means_of(x), means_of(y));
  if (!tau) return {};
  if (!has_several_runs(x) || !has_several_runs(y)) return Estimate{*tau, {}};
  struct Nothing {};
  BootstrapDistribution distribution(1, options);
  for_each_resample<Nothing>(options, [&](std::size_t resample, Nothing&) {
    std::size_t stratum = 0;
    const Scores in_x = resampled_means(x, options.seed, resample, stratum);
    const Scores in_y = resampled_means(y, options.seed, resample, stratum);
    distribution.set(0, resample, kendall_tau(in_x, in_y).value_or(0));
  });
  return distribution.estimate(0, *tau);
}

}  // namespace engram
