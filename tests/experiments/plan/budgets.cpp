#include "experiments/plan/budgets.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "memory/core/backbone_options.h"
#include "memory/core/registry.h"

using namespace engram;

namespace {

Config config_of(const std::string& backbone, const Settings& more = {}) {
  Settings settings = {{"task.name", "visual_match"}, {"memory.name", backbone}};
  settings.insert(settings.end(), more.begin(), more.end());
  return Config::from_settings(settings);
}

std::int64_t count_parameters(const Config& config) {
  std::int64_t count = 0;
  const auto model = make_backbone(config.memory, config.task.info().max_episode_steps + 1);
  for (const torch::Tensor& parameter : model->parameters()) count += parameter.numel();
  return count;
}

}  // namespace

TEST_CASE("budgets are those of the definitions") {
  constexpr std::int64_t kWidth = 64, kHeads = 2, kLayers = 3, kWindow = 16;
  const Settings sizes = {{"memory.width", "64"}, {"memory.layers", "3"}, {"memory.heads", "2"}};
  // Numbers a layer: H (d/H)^2; that and 2 S d; 2 T d. T is 15 + 60 + 15 steps and one observation more.
  const std::int64_t fast = kHeads * (kWidth / kHeads) * (kWidth / kHeads), window = 2 * kWindow * kWidth;
  CHECK(budget_of(config_of("deltanet", sizes)).state_bytes == 4 * kLayers * fast);
  Settings with_window = sizes;
  with_window.emplace_back("memory.window", "16");
  CHECK(budget_of(config_of("hqlt", with_window)).state_bytes == 4 * kLayers * (fast + window) + 8);
  CHECK(budget_of(config_of("transformer", sizes)).state_bytes == 4 * kLayers * 2 * 91 * kWidth + 8);
  CHECK(budget_of(config_of("none", {{"memory.width", "64"}})).state_bytes == 0);
  CHECK(budget_of(config_of("lstm", {{"memory.width", "64"}})).state_bytes == 4 * 2 * kWidth);

  const Budget lstm = budget_of(config_of("lstm", {{"memory.width", "64"}}));
  CHECK(lstm.width == kWidth);
  CHECK(lstm.parameters == 8 * kWidth * kWidth + 8 * kWidth);
  CHECK(lstm.flops_per_step == 2 * 8 * kWidth * kWidth);
  for (const std::string& name : backbone_names()) {
    const Config config = config_of(name);
    CHECK(budget_of(config).parameters == count_parameters(config));
  }
}

TEST_CASE("widths are chosen so that every backbone agrees within 3%, in each figure") {
  struct Case {
    Match match;
    Config reference;
    std::vector<std::string> backbones;
  };
  const Config hqlt = config_of("hqlt");
  const Config lstm = config_of("lstm", {{"memory.width", "512"}});
  for (const auto& [match, reference, backbones] :
       {Case{Match::kParameters, hqlt, backbone_names()}, Case{Match::kFlops, hqlt, backbone_names()},
        Case{Match::kState, hqlt, {"transformer", "deltanet", "hqlt"}},
        Case{Match::kState, lstm, {"gru", "deltanet", "lstm"}}})
    for (const std::string& name : backbones) {
      CAPTURE(name);
      CAPTURE(figure_name(match));
      const std::int64_t target = matched_figure(budget_of(reference), match);
      // Its MLP as published grows from 256 to 512 units between the two widths nearest to the target.
      const bool jumps = name == "delta_product";
      Config config = jumps ? config_of(name, {{"memory.mlp_width", "512"}}) : config_of(name);
      const Budget budget = match_width(config, match, target, "here");
      CHECK(std::abs(static_cast<double>(matched_figure(budget, match)) / static_cast<double>(target) - 1) <= 0.03);
      CHECK(budget == budget_of(config));
      CHECK(config.memory.width() == budget.width);
    }
}

namespace {

double mlp_share(const Budget& budget, Match match) {
  return static_cast<double>(matched_mlp_figure(budget, match)) / static_cast<double>(matched_figure(budget, match));
}

}  // namespace

TEST_CASE("with the MLPs' widths chosen, too, memories and MLPs agree with the reference's") {
  int compared = 0;
  for (const Match match : {Match::kParameters, Match::kFlops})
    for (const auto& [width, layers] : {std::pair("100", "3"), {"64", "1"}, {"40", "1"}, {"20", "2"}}) {
      const Budget goal = budget_of(config_of("hqlt", {{"memory.width", width}, {"memory.layers", layers}}));
      const std::int64_t target = matched_figure(goal, match);
      for (const char* name : {"transformer", "deltanet", "hqlt_delayed_stream", "hqlt_delayed_chunk"}) {
        CAPTURE(name);
        CAPTURE(width);
        CAPTURE(figure_name(match));
        Config config = config_of(name, {{"memory.layers", layers}});
        const Budget budget = match_sizes(config, match, goal, "here");
        CHECK(budget == budget_of(config));
        CHECK(std::abs(static_cast<double>(matched_figure(budget, match)) / static_cast<double>(target) - 1) <= 0.03);
        CHECK(std::abs(mlp_share(budget, match) - mlp_share(goal, match)) <= 0.03);
        CHECK(config.memory.inner_width() == budget.mlp_width);
        // By width alone the memory gets what a multiple of 256 leaves, where there is such a width at all.
        Config by_width = config_of(name, {{"memory.layers", layers}});
        try {
          const Budget other = match_width(by_width, match, target, "here");
          ++compared;
          CHECK(std::abs(mlp_share(budget, match) - mlp_share(goal, match)) <=
                std::abs(mlp_share(other, match) - mlp_share(goal, match)) + 0.03);
        } catch (const UserError&) {
        }
      }
    }
  CHECK(compared > 10);
}

TEST_CASE("the sizes chosen are the best of all near them, and those with kernels come first") {
  const Budget goal = budget_of(config_of("hqlt"));
  Config config = config_of("deltanet");
  const Budget found = match_sizes(config, Match::kParameters, goal, "here");
  CHECK(found.width % 4 == 0);
  CHECK(found.mlp_width % 64 == 0);
  const auto off = [&](const Budget& budget) {
    return std::abs(mlp_share(budget, Match::kParameters) - mlp_share(goal, Match::kParameters));
  };
  int compared = 0;
  for (int width = 92; width <= 132; width += 4)
    for (int mlp = 64; mlp <= 1024; mlp += 64) {
      const Budget budget = budget_of(
          config_of("deltanet", {{"memory.width", std::to_string(width)}, {"memory.mlp_width", std::to_string(mlp)}}));
      if (std::abs(static_cast<double>(budget.parameters) / static_cast<double>(goal.parameters) - 1) > 0.03) continue;
      ++compared;
      CHECK(off(found) <= off(budget) + 1e-12);
    }
  CHECK(compared > 3);
}

TEST_CASE("what leaves no MLP's width open is matched by its width, and what agrees already stays") {
  const Budget goal = budget_of(config_of("hqlt"));
  for (const char* name : {"lstm", "gru", "none"}) {
    Config config = config_of(name), by_width = config;
    CHECK(match_sizes(config, Match::kParameters, goal, "here") ==
          match_width(by_width, Match::kParameters, goal.parameters, "here"));
  }
  Config given = config_of("deltanet", {{"memory.mlp_width", "96"}});
  CHECK(match_sizes(given, Match::kParameters, goal, "here").mlp_width == 96);
  Config same = config_of("hqlt");
  CHECK(match_sizes(same, Match::kParameters, goal, "here") == goal);
  CHECK(same.to_ini() == config_of("hqlt").to_ini());
  Config state = config_of("deltanet");
  const Budget of_state = match_sizes(state, Match::kState, goal, "here");
  CHECK(of_state.mlp_width == swiglu_width(static_cast<int>(of_state.width)));
}

TEST_CASE("beside a reference without an MLP each MLP keeps about its published share") {
  const Budget goal = budget_of(config_of("lstm", {{"memory.width", "128"}}));
  for (const auto& [name, ratio] : {std::pair("deltanet", 8.0 / 3), {"hqlt", 8.0 / 3}, {"transformer", 4.0}}) {
    CAPTURE(name);
    Config config = config_of(name);
    const Budget budget = match_sizes(config, Match::kParameters, goal, "here");
    CHECK(budget.mlp_width % 8 == 0);
    Config published = config;
    const OptionList sizes = published.memory.options();
    for (const Option& option : sizes.options())
      if (option.name == "memory.mlp_width")
        option.set(std::to_string(std::lround(ratio * static_cast<double>(budget.width))));
    CHECK(std::abs(mlp_share(budget, Match::kParameters) - mlp_share(budget_of(published), Match::kParameters)) <=
          0.05);
    CHECK(std::abs(static_cast<double>(budget.parameters) / static_cast<double>(goal.parameters) - 1) <= 0.03);
  }
}

TEST_CASE("the width chosen is the best of all legal ones") {
  const std::int64_t target = budget_of(config_of("hqlt", {{"memory.width", "36"}, {"memory.layers", "1"}})).parameters;
  for (const char* name : {"deltanet", "lstm", "gru", "none"}) {
    CAPTURE(name);
    Settings settings;
    if (std::string(name) == "deltanet") settings = {{"memory.layers", "1"}, {"memory.heads", "3"}};
    Config config = config_of(name, [&] {
      Settings with_width = settings;
      with_width.emplace_back("memory.width", "9");
      return with_width;
    }());
    std::int64_t best = 1'000'000'000;
    for (int width = 3; width < 400; width += 3) {
      const int step = std::string(name) == "deltanet" ? 3 : 1;
      for (int w = width; w < width + 3; w += step) {
        Settings sized = settings;
        sized.emplace_back("memory.width", std::to_string(w));
        best = std::min(best, std::abs(budget_of(config_of(name, sized)).parameters - target));
      }
    }
    std::int64_t found = -1;
    try {
      found = match_width(config, Match::kParameters, target, "here").parameters;
    } catch (const UserError&) {
      CHECK(static_cast<double>(best) / static_cast<double>(target) > 0.03);
      continue;
    }
    CHECK(std::abs(found - target) == best);
  }
}

TEST_CASE("what no width can match is refused in one line that says how near it comes") {
  Config config = config_of("deltanet", {{"memory.heads", "64"}, {"memory.width", "64"}});
  const std::int64_t target =
      budget_of(config_of("deltanet", {{"memory.heads", "1"}, {"memory.width", "90"}})).state_bytes;
  try {
    match_width(config, Match::kState, target, "t/deltanet");
    CHECK(false);
  } catch (const UserError& error) {
    const std::string message = error.what();
    CHECK(message.starts_with("t/deltanet: its state bytes cannot be brought within 3% of "));
    CHECK(message.find("at width ") != std::string::npos);
  }
}

TEST_CASE("what a memory adds at first is measured of its own options, and of some memories there is nothing") {
  BackboneConfig memory("deltanet");
  const auto published = first_scale_of(memory);
  REQUIRE(published);
  CHECK(*published == doctest::Approx(0.081).epsilon(0.05));
  CHECK(first_scale_of(memory) == published);
  memory.options().set("memory.weight_std", "0.04");
  CHECK(*first_scale_of(memory) > 1.5 * *published);
  CHECK_FALSE(first_scale_of(BackboneConfig("gru")));
}
