#include "experiments/plan/budgets.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/text/formatted.h"
#include "memory/core/counted_backbone.h"
#include "memory/core/first_scale.h"
#include "memory/core/registry.h"

namespace engram {
namespace {

constexpr int kMaxWidth = 4096;
constexpr const char* kMlpWidth = "memory.mlp_width";

// Whether there are MLPs whose width the settings leave open.
bool leaves_mlp_open(const Config& config) { return value_text(config.memory.values(), kMlpWidth) == "0"; }

void set_size(Config& config, const char* key, std::int64_t size) {
  OptionList options = config.memory.options();
  options.set(key, std::to_string(size));
}

// Figures of one backbone by width, each counted once; nothing for a width that its other options do not allow.
class Figures {
 public:
  // resize(config, width): gives the backbone the width, and what goes with it.
  Figures(const Config& config, std::function<std::int64_t(const Budget&)> figure,
          std::function<void(Config&, int width)> resize)
      : config_(config), figure_(std::move(figure)), resize_(std::move(resize)) {}

  std::optional<std::int64_t> at(int width) {
    const auto found = known_.find(width);
    if (found != known_.end()) return found->second;
    resize_(config_, width);
    std::optional<std::int64_t> figure;
    if (legal()) figure = figure_(budget_of(config_));
    return known_[width] = figure;
  }

  // The nearest legal width in direction `step`, inside [1, kMaxWidth].
  std::optional<int> legal_from(int width, int step) {
    for (; width >= 1 && width <= kMaxWidth; width += step) {
      resize_(config_, width);
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
  std::function<std::int64_t(const Budget&)> figure_;
  std::function<void(Config&, int width)> resize_;
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

void set_width(Config& config, int width) { set_size(config, "memory.width", width); }

std::string no_width(const std::string& where) {
  return where + ": no width up to " + std::to_string(kMaxWidth) + " goes with its other options";
}

// Relative difference of the figure from `target`.
double difference(const Budget& budget, Match match, std::int64_t target) {
  return static_cast<double>(matched_figure(budget, match)) / static_cast<double>(target) - 1;
}

// The budget of the sizes that were chosen, if it is near enough.
Budget checked(const Config& config, Match match, std::int64_t target, const std::string& where) {
  const Budget budget = budget_of(config);
  const double off = difference(budget, match, target);
  if (std::abs(off) <= kMatchTolerance) return budget;
  throw UserError(where + ": its " + figure_name(match) + " cannot be brought within " +
                  std::to_string(std::lround(100 * kMatchTolerance)) + "% of " + std::to_string(target) +
                  " by its width: " + formatted("%+.1f%% at width %d", 100 * off, static_cast<int>(budget.width)) +
                  " is nearest; change its memory.layers or memory.heads");
}

// The MLPs in their published proportion to the width, to a multiple of 8.
void set_in_proportion(Config& config, int width) {
  constexpr int kUnroundedWidth = 768;  // of which 8/3 is a multiple of 256
  set_width(config, kUnroundedWidth);
  set_size(config, kMlpWidth, 0);
  const double ratio = static_cast<double>(config.memory.inner_width()) / kUnroundedWidth;
  set_width(config, width);
  set_size(config, kMlpWidth, std::max(8L, 8 * std::lround(ratio * width / 8)));
}

// The MLPs' share of the figure where the config's backbone has MLPs in their published proportion and is matched by
// its width as well as legal widths allow.
double published_share(const Config& config, Match match, std::int64_t target, const std::string& where) {
  Figures figures(
      config, [match](const Budget& budget) { return matched_figure(budget, match); }, set_in_proportion);
  const auto width = nearest_width(figures, static_cast<int>(config.memory.width()), target);
  if (!width) throw UserError(no_width(where));
  Config sized = config;
  set_in_proportion(sized, *width);
  const Budget budget = budget_of(sized);
  return static_cast<double>(matched_mlp_figure(budget, match)) / static_cast<double>(matched_figure(budget, match));
}

// A pair of width and MLP width, and how far it is from what is asked for.
struct Sizes {
  int width = 0;
  std::int64_t mlp_width = 0;
  double off = 0;        // of the whole figure, relative
  double share_off = 0;  // of the MLPs' share
};

// Legal widths near `middle`, which is one: as many on either side.
std::vector<int> widths_around(Figures& figures, int middle) {
  constexpr int kEachSide = 8;
  std::vector<int> widths = {middle};
  for (const int step : {-1, 1}) {
    std::optional<int> width = middle;
    for (int i = 0; i < kEachSide && width; ++i)
      if ((width = figures.legal_from(*width + step, step))) widths.push_back(*width);
  }
  return widths;
}

// The figure of one width, which grows with the MLP's width by `unit` for each: its part without an MLP, and the MLPs'
// part of that, biases.
struct FigureOfWidth {
  int width;
  double unit, without, mlp_without;
};

std::vector<FigureOfWidth> figures_of(const Config& base, Match match, const std::vector<int>& widths) {
  std::vector<FigureOfWidth> figures;
  for (const int width : widths) {
    Config config = base;
    set_width(config, width);
    const auto with = [&](int mlp_width) {
      set_size(config, kMlpWidth, mlp_width);
      return budget_of(config);
    };
    const Budget one = with(1), two = with(2);
    const auto unit = static_cast<double>(matched_figure(two, match) - matched_figure(one, match));
    figures.push_back({width, unit, static_cast<double>(matched_figure(one, match)) - unit,
                       static_cast<double>(matched_mlp_figure(one, match)) - unit});
  }
  return figures;
}

// The pair of this width whose MLP's is a multiple of `multiple` and brings the figure nearest to the goal's.
Sizes nearest_pair(const FigureOfWidth& at, Match match, const Budget& goal, int multiple) {
  const auto target = static_cast<double>(matched_figure(goal, match));
  const double share = static_cast<double>(matched_mlp_figure(goal, match)) / target;
  const std::int64_t mlp_width = multiple * std::max(1L, std::lround((target - at.without) / at.unit / multiple));
  const double added = at.unit * static_cast<double>(mlp_width), figure = at.without + added;
  return {at.width, mlp_width, figure / target - 1, (at.mlp_without + added) / figure - share};
}

}  // namespace

Budget budget_of(const Config& config) {
  const torch::NoGradGuard no_grad;
  const auto make = [&] { return make_backbone(config.memory, config.task.info().max_episode_steps + 1); };
  const ModelCost cost = made_to_count(config.memory, make)->cost();
  return {.width = config.memory.width(),
          .parameters = cost.parameters,
          .state_bytes = cost.state_bytes,
          .flops_per_step = 2 * cost.multiply_adds_per_step,
          .mlp_width = config.memory.inner_width(),
          .mlp_parameters = cost.mlp_parameters,
          .mlp_flops_per_step = 2 * cost.mlp_multiply_adds_per_step};
}

std::optional<double> first_scale_of(const BackboneConfig& memory) {
  static std::mutex measuring;
  static std::map<std::string, std::optional<double>> known;  // by name and options
  std::string key = memory.name();
  for (const OptionValue& option : memory.values()) key += "\n" + option.name + "=" + option.text;
  const std::lock_guard lock(measuring);
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, first_scale(memory)).first->second;
}

std::int64_t matched_figure(const Budget& budget, Match match) {
  return match == Match::kParameters ? budget.parameters
         : match == Match::kState    ? budget.state_bytes
                                     : budget.flops_per_step;
}

std::int64_t matched_mlp_figure(const Budget& budget, Match match) {
  return match == Match::kParameters ? budget.mlp_parameters : match == Match::kState ? 0 : budget.mlp_flops_per_step;
}

const char* figure_name(Match match) {
  return match == Match::kParameters ? "parameters" : match == Match::kState ? "state bytes" : "flops per step";
}

Budget match_width(Config& config, Match match, std::int64_t target, const std::string& where) {
  Figures figures(
      config, [match](const Budget& budget) { return matched_figure(budget, match); }, set_width);
  const auto width = nearest_width(figures, static_cast<int>(config.memory.width()), target);
  if (!width) throw UserError(no_width(where));
  set_width(config, *width);
  return checked(config, match, target, where);
}

Budget match_sizes(Config& config, Match match, const Budget& goal, const std::string& where) {
  if (const Budget own = budget_of(config); own == goal) return own;
  const std::int64_t target = matched_figure(goal, match);
  if (match == Match::kState || !leaves_mlp_open(config)) return match_width(config, match, target, where);
  Budget wanted = goal;
  if (const std::int64_t mlp = matched_mlp_figure(goal, match); mlp == 0 || mlp == target)
    (match == Match::kParameters ? wanted.mlp_parameters : wanted.mlp_flops_per_step) =
        std::llround(published_share(config, match, target, where) * static_cast<double>(target));
  const std::int64_t mlp_target = matched_mlp_figure(wanted, match);

  // Around the width at which the memory's parts agree.
  Figures memory_part(
      config, [match](const Budget& b) { return matched_figure(b, match) - matched_mlp_figure(b, match); },
      [](Config& sized, int width) {
        set_width(sized, width);
        set_size(sized, kMlpWidth, 1);
      });
  const auto middle = nearest_width(memory_part, static_cast<int>(config.memory.width()), target - mlp_target);
  if (!middle) throw UserError(no_width(where));
  const std::vector<FigureOfWidth> widths = figures_of(config, match, widths_around(memory_part, *middle));
  constexpr int kKernelWidth = 4, kKernelMlp = 64;
  Sizes best;
  for (const int multiple : {kKernelMlp, 8, 1}) {
    std::vector<Sizes> pairs;
    for (const FigureOfWidth& at : widths)
      if (multiple != kKernelMlp || at.width % kKernelWidth == 0)
        pairs.push_back(nearest_pair(at, match, wanted, multiple));
    if (pairs.empty()) continue;
    // Those within the tolerance first, then the nearest share, then the nearest figure.
    const auto rank = [](const Sizes& pair) {
      const bool agrees = std::abs(pair.off) <= kMatchTolerance;
      return std::tuple(!agrees, agrees ? std::abs(pair.share_off) : 0.0, std::abs(pair.off), pair.width);
    };
    best = *std::ranges::min_element(pairs, {}, rank);
    const bool agrees = std::abs(best.off) <= kMatchTolerance;
    if (agrees && (multiple != kKernelMlp || std::abs(best.share_off) <= kMatchTolerance)) break;
  }
  set_width(config, best.width);
  set_size(config, kMlpWidth, best.mlp_width);
  return checked(config, match, target, where);
}

}  // namespace engram
