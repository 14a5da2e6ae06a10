#include "experiments/statistics/separation.h"

#include <algorithm>
#include <boost/math/distributions/fisher_f.hpp>
#include <cstddef>
#include <utility>

#include "agents/study/statistics.h"

namespace engram {
namespace {

bool at_top(double success, double chance) { return success >= chance + kAtTop * (1 - chance); }

}  // namespace

std::optional<Estimate> intraclass_correlation(const std::vector<std::vector<double>>& groups) {
  double runs = 0, sum = 0, squares_of_sizes = 0;
  for (const std::vector<double>& group : groups) {
    runs += static_cast<double>(group.size());
    squares_of_sizes += static_cast<double>(group.size() * group.size());
    for (const double value : group) sum += value;
  }
  const auto count = static_cast<double>(
      std::ranges::count_if(groups, [](const std::vector<double>& group) { return !group.empty(); }));
  const double between_freedom = count - 1, within_freedom = runs - count;
  if (between_freedom < 1 || within_freedom < 1) return {};
  double between = 0, within = 0;
  for (const std::vector<double>& group : groups) {
    if (group.empty()) continue;
    const double mean = mean_of(group), apart = mean - sum / runs;
    between += static_cast<double>(group.size()) * apart * apart;
    for (const double value : group) within += (value - mean) * (value - mean);
  }
  // Rounding errors of equal runs are no spread.
  constexpr double kNothing = 1e-18;
  if (between + within < kNothing * runs) return {};
  between /= between_freedom;
  within /= within_freedom;
  // The size that groups of one size would have (Searle 1971).
  const double size = (runs - squares_of_sizes / runs) / between_freedom;
  const auto share = [&](double ratio) { return (ratio - 1) / (ratio - 1 + size); };  // of the ratio of mean squares
  if (within < kNothing) return Estimate{1, std::pair(1.0, 1.0)};
  const double ratio = between / within;
  const boost::math::fisher_f_distribution<double> f(between_freedom, within_freedom),
      mirrored(within_freedom, between_freedom);
  return Estimate{share(ratio), std::pair(share(ratio / boost::math::quantile(f, 0.975)),
                                          share(ratio * boost::math::quantile(mirrored, 0.975)))};
}

Separation separation_of(const TaskRuns& runs) {
  Separation found;
  const double chance = runs.chance.value_or(0);
  bool any_shown = false, any_at_top = false;
  for (const auto* const groups : {&runs.shown_all, &runs.memories})
    for (const std::vector<double>& group : *groups)
      for (const double success : group) {
        any_shown = any_shown || groups == &runs.shown_all;
        any_at_top = any_at_top || at_top(success, chance);
      }
  if (any_shown || any_at_top) found.can_be_done = any_at_top;
  if (!runs.memoryless.empty()) found.needs_memory = !at_top(mean_of(runs.memoryless), chance);

  std::vector<std::vector<double>> counted = runs.memories;
  std::erase_if(counted, [](const std::vector<double>& group) { return group.empty(); });
  for (std::vector<double>& group : counted)
    for (double& success : group) success = std::max(success, chance);
  found.intraclass_correlation = intraclass_correlation(counted);
  const bool enough =
      counted.size() >= 2 && std::ranges::any_of(counted, [](const auto& group) { return group.size() >= 2; });
  if (found.intraclass_correlation)
    found.memories_differ = found.intraclass_correlation->interval->first > 0;
  else if (enough)
    found.memories_differ = false;
  return found;
}

std::optional<bool> Separation::tells_apart() const {
  const std::optional<bool> parts[] = {can_be_done, needs_memory, memories_differ};
  if (std::ranges::count(parts, std::optional<bool>(false)) > 0) return false;
  if (std::ranges::count(parts, std::optional<bool>()) > 0) return {};
  return true;
}

std::string Separation::reason() const {
  if (can_be_done == false) return "no run gets to the top, not even one that is shown all";
  if (needs_memory == false) return "agents without memory get to the top, too";
  if (memories_differ == false)
    return intraclass_correlation ? "memories differ by no more than their seeds" : "all runs of memories are the same";
  if (!memories_differ) return "there are no two memories with several runs to compare";
  if (!can_be_done) return "no run gets to the top, and none is shown all, which would say whether it can be done";
  const std::string differ = "memories differ by more than their seeds";
  if (!needs_memory) return differ + "; no run of none says whether memory is needed";
  return "it can be done, not without memory, and " + differ;
}

}  // namespace engram
