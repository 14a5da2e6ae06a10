#include "experiments/budgets.h"

#include <cmath>
#include <cstdio>
#include <map>
#include <optional>

#include "base/error.h"

namespace engram {
namespace {

constexpr int kMaxWidth = 4096;

void set_width(Config& config, int width) {
  OptionList options = config.memory.options();
  options.set("memory.width", std::to_string(width));
}

// Figures of one backbone by width, each counted once; nothing for a width that its other options do not allow.
class Figures {
 public:
  Figures(const Config& config, Match match) : config_(config), match_(match) {}

  std::optional<std::int64_t> at(int width) {
    const auto found = known_.find(width);
    if (found != known_.end()) return found->second;
    set_width(config_, width);
    std::optional<std::int64_t> figure;
    if (legal()) figure = matched_figure(budget_of(config_), match_);
    return known_[width] = figure;
  }

  // The nearest legal width in direction `step`, inside [1, kMaxWidth].
  std::optional<int> legal_from(int width, int step) {
    for (; width >= 1 && width <= kMaxWidth; width += step) {
      set_width(config_, width);
      if (legal()) return width;
    }
    return std::nullopt;
  }

 private:
  bool legal() const {
    try {
      config_.memory.check();
      return true;
    } catch (const UserError&) {
      return false;
    }
  }

  Config config_;
  Match match_;
  std::map<int, std::optional<std::int64_t>> known_;
};

// Of the legal widths around the point where the growing figure passes the target, the one nearest to it.
std::optional<int> nearest_width(Figures& figures, int start, std::int64_t target) {
  std::optional<int> below = figures.legal_from(1, 1), above = figures.legal_from(std::max(start, 1), 1);
  if (!below || *figures.at(*below) >= target) return below;
  while (above && *figures.at(*above) < target) {
    below = above;
    above = figures.legal_from(2 * *above, 1);
  }
  if (!above) return below;
  while (const auto middle = figures.legal_from((*below + *above + 1) / 2, 1)) {
    if (*middle >= *above) {  // no legal width in the upper half
      const auto lower = figures.legal_from((*below + *above) / 2, -1);
      if (!lower || *lower <= *below) break;
      (*figures.at(*lower) < target ? below : above) = lower;
      continue;
    }
    (*figures.at(*middle) < target ? below : above) = middle;
  }
  return target - *figures.at(*below) < *figures.at(*above) - target ? below : above;
}

}  // namespace

Budget budget_of(const Config& config) {
  const torch::NoGradGuard no_grad;
  const ModelCost cost = make_backbone(config.memory, config.task.info().max_episode_steps + 1)->cost();
  return {config.memory.width(), cost.parameters, cost.state_bytes, 2 * cost.multiply_adds_per_step};
}

std::int64_t matched_figure(const Budget& budget, Match match) {
  return match == Match::kParameters ? budget.parameters
         : match == Match::kState    ? budget.state_bytes
                                     : budget.flops_per_step;
}

const char* figure_name(Match match) {
  return match == Match::kParameters ? "parameters" : match == Match::kState ? "state bytes" : "flops per step";
}

Budget match_width(Config& config, Match match, std::int64_t target, const std::string& where) {
  Figures figures(config, match);
  const auto width = nearest_width(figures, static_cast<int>(config.memory.width()), target);
  if (!width) throw UserError(where + ": no width up to " + std::to_string(kMaxWidth) + " goes with its other options");
  set_width(config, *width);
  const Budget budget = budget_of(config);
  const double figure = static_cast<double>(matched_figure(budget, match));
  const double difference = figure / static_cast<double>(target) - 1;
  if (!(std::abs(difference) <= kMatchTolerance)) {
    char text[96];
    std::snprintf(text, sizeof(text), "%+.1f%% at width %d", 100 * difference, *width);
    throw UserError(where + ": its " + figure_name(match) + " cannot be brought within " +
                    std::to_string(std::lround(100 * kMatchTolerance)) + "% of " + std::to_string(target) +
                    " by its width: " + text + " is nearest; change its memory.layers or memory.heads");
  }
  return budget;
}

}  // namespace engram
