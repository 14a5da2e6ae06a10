#include "experiments/statistics/aggregate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;
using Json = nlohmann::json;

namespace {

const Json& golden() {
  static const Json json = [] {
    std::ifstream stream(std::string(ENGRAM_SOURCE_DIR) + "/tests/golden/rliable.json");
    return Json::parse(stream);
  }();
  return json;
}

TaskScores golden_scores(const std::string& method) { return golden()["scores"][method].get<TaskScores>(); }

ScoreTable golden_table() {
  std::vector<std::string> methods;
  for (const auto& [method, scores] : golden()["scores"].items()) methods.push_back(method);
  std::vector<std::uint64_t> seeds;
  for (std::uint64_t seed = 0; seed < golden_scores(methods[0])[0].size(); ++seed) seeds.push_back(seed);
  ScoreTable table("score", "", golden()["tasks"], methods, seeds);
  for (std::size_t method = 0; method < methods.size(); ++method) {
    const TaskScores scores = golden_scores(methods[method]);
    for (std::size_t task = 0; task < table.tasks.size(); ++task)
      for (std::size_t seed = 0; seed < seeds.size(); ++seed) table.at(task, method, seed) = scores[task][seed];
  }
  return table;
}

const AggregateScores& golden_aggregate() {
  static const AggregateScores scores = aggregate(golden_table());
  return scores;
}

// Point figures: to 1e-6 relative. Ends of intervals: within five standard deviations of the difference of two
// bootstraps of these numbers of resamples; tests/golden/make_rliable.py says how the ranges are found. Rounding may
// put a value of a lattice just outside of itself.
void check_estimate(const Estimate& estimate, const Json& expected) {
  CHECK(estimate.value == doctest::Approx(expected["value"].get<double>()).epsilon(1e-6));
  REQUIRE(estimate.interval);
  CAPTURE(expected.dump());
  CAPTURE(estimate.interval->first);
  CAPTURE(estimate.interval->second);
  constexpr double kRounding = 1e-9;
  CHECK(estimate.interval->first >= expected["low_range"][0].get<double>() - kRounding);
  CHECK(estimate.interval->first <= expected["low_range"][1].get<double>() + kRounding);
  CHECK(estimate.interval->second >= expected["high_range"][0].get<double>() - kRounding);
  CHECK(estimate.interval->second <= expected["high_range"][1].get<double>() + kRounding);
}

bool same(const Estimate& a, const Estimate& b) { return a.value == b.value && a.interval == b.interval; }

}  // namespace

TEST_CASE("point figures and intervals are rliable's") {
  for (const MethodScores& method : golden_aggregate().methods) {
    CAPTURE(method.method);
    const Json& expected = golden()["aggregates"][method.method];
    check_estimate(method.interquartile_mean, expected["iqm"]);
    check_estimate(method.mean, expected["mean"]);
    check_estimate(method.median, expected["median"]);
    check_estimate(method.optimality_gap, expected["optimality_gap"]);

    const TaskScores scores = golden_scores(method.method);
    const double rounding = 1e-12;  // the same sums in another order
    CHECK(interquartile_mean(scores) == doctest::Approx(method.interquartile_mean.value).epsilon(rounding));
    CHECK(mean_of_tasks(scores) == doctest::Approx(method.mean.value).epsilon(rounding));
    CHECK(median_of_tasks(scores) == doctest::Approx(method.median.value).epsilon(rounding));
    CHECK(optimality_gap(scores) == doctest::Approx(method.optimality_gap.value).epsilon(rounding));
  }
  CHECK(golden_aggregate().methods.size() == 4);
}

TEST_CASE("probabilities of improvement are rliable's") {
  REQUIRE(golden_aggregate().comparisons.size() == 6);
  for (const Json& expected : golden()["improvement"]) {
    const auto x = expected["x"].get<std::string>(), y = expected["y"].get<std::string>();
    bool found = false;
    for (const MethodComparison& comparison : golden_aggregate().comparisons) {
      Estimate estimate = comparison.probability_of_improvement;
      if (comparison.x == y && comparison.y == x) {
        estimate = {1 - estimate.value, std::pair(1 - estimate.interval->second, 1 - estimate.interval->first)};
      } else if (comparison.x != x || comparison.y != y) {
        continue;
      }
      found = true;
      check_estimate(estimate, expected);
    }
    CHECK(found);
  }
}

TEST_CASE("performance profiles are rliable's") {
  std::vector<double> thresholds;
  for (int i = 0; i < kProfileThresholds; ++i) thresholds.push_back(profile_threshold(i));
  for (const MethodScores& method : golden_aggregate().methods) {
    const Json& expected = golden()["profiles"][method.method];
    const std::vector<double> profile = performance_profile(golden_scores(method.method), thresholds);
    REQUIRE(method.profile.size() == expected.size());
    for (std::size_t i = 0; i < profile.size(); ++i) {
      CAPTURE(i);
      CHECK(method.profile[i].value == doctest::Approx(expected[i].get<double>()).epsilon(1e-6));
      CHECK(profile[i] == doctest::Approx(expected[i].get<double>()).epsilon(1e-6));
      REQUIRE(method.profile[i].interval);
      CHECK(method.profile[i].interval->first <= profile[i] + 1e-9);
      CHECK(method.profile[i].interval->second >= profile[i] - 1e-9);
    }
  }
}

TEST_CASE("figures are the same in any number of threads, and other resamples with another seed") {
  BootstrapOptions options{.resamples = 999, .seed = 5, .threads = 1};
  const AggregateScores one = aggregate(golden_table(), options);
  options.threads = 3;
  const AggregateScores three = aggregate(golden_table(), options);
  options.seed = 6;
  const AggregateScores other = aggregate(golden_table(), options);
  for (std::size_t i = 0; i < one.methods.size(); ++i) {
    CHECK(same(one.methods[i].interquartile_mean, three.methods[i].interquartile_mean));
    CHECK(same(one.methods[i].profile[50], three.methods[i].profile[50]));
    CHECK(same(*one.cells[2][i], *three.cells[2][i]));
  }
  for (std::size_t i = 0; i < one.comparisons.size(); ++i) {
    CHECK(same(one.comparisons[i].probability_of_improvement, three.comparisons[i].probability_of_improvement));
    CHECK(same(*one.comparisons[i].paired_difference, *three.comparisons[i].paired_difference));
  }
  // "fine", whose scores lie on no lattice.
  CHECK(one.methods[3].method == "fine");
  CHECK(one.methods[3].mean.value == other.methods[3].mean.value);
  CHECK(one.methods[3].mean.interval != other.methods[3].mean.interval);
}

TEST_CASE("pairing by seed sees a difference that seeds drown") {
  // y is 0.01 below x in every run; the runs differ by far more.
  ScoreTable table("score", "", {"a", "b"}, {"x", "y"}, {1, 2, 3, 4, 5});
  for (std::size_t task = 0; task < 2; ++task) {
    for (std::size_t seed = 0; seed < 5; ++seed) {
      table.at(task, 0, seed) = 0.2 * static_cast<double>(seed) + 0.01;
      table.at(task, 1, seed) = 0.2 * static_cast<double>(seed);
    }
  }
  const AggregateScores scores = aggregate(table, {.resamples = 2000});
  const MethodComparison& comparison = scores.comparisons.at(0);
  CHECK(comparison.pairs == 10);
  REQUIRE(comparison.paired_difference);
  CHECK(comparison.paired_difference->value == doctest::Approx(0.01));
  CHECK(comparison.paired_difference->interval->first == doctest::Approx(0.01));
  CHECK(comparison.paired_difference->interval->second == doctest::Approx(0.01));
  CHECK(comparison.probability_of_improvement.value == doctest::Approx(0.6));  // 15 of 25
  CHECK(comparison.probability_of_improvement.interval->first < 0.4);
  CHECK(scores.methods[0].mean.interval->first < 0.3);
}

TEST_CASE("unequal and missing runs: what is there is used, what is left out is named") {
  ScoreTable table("score", "", {"short", "long"}, {"x", "y", "z"}, {1, 2, 3, 4});
  for (std::size_t seed = 0; seed < 4; ++seed) table.at(0, 0, seed) = 0.25 * static_cast<double>(seed + 1);
  table.at(0, 1, 1) = 0.5;
  table.at(0, 1, 3) = 1;
  table.at(1, 0, 0) = 0.125;
  const AggregateScores scores = aggregate(table, {.resamples = 500});
  CHECK(scores.tasks == std::vector<std::string>{"short"});
  REQUIRE(scores.methods.size() == 2);
  CHECK(scores.methods[0].mean.value == doctest::Approx(0.625));
  CHECK(scores.methods[1].mean.value == doctest::Approx(0.75));
  CHECK(scores.comparisons[0].pairs == 2);
  CHECK(scores.comparisons[0].paired_difference->value == doctest::Approx(0));
  CHECK(scores.cells[1][0]->value == 0.125);
  CHECK(!scores.cells[1][0]->interval);  // of one run
  CHECK(scores.cells[0][1]->interval);
  CHECK(!scores.cells[0][2]);
  std::string all;
  for (const std::string& sentence : scores.left_out) all += sentence + "\n";
  for (const char* part :
       {"y on short: 2 of 4 runs have a score, not seed 1, 3\n", "x on long: 1 of 4 runs", "one run gives no interval",
        "z on short: 0 of 4", "y, z on long: 0 of 4 runs have a score, not seed 1, 2, 3, 4\n",
        "z has no score and is left out", "long is left out of the figures over tasks: it has no score of y\n"})
    CHECK_MESSAGE(mentions(all, part), all);

  table.at(1, 1, 0) = 0.5;
  const AggregateScores both = aggregate(table, {.resamples = 500});
  CHECK(both.tasks.size() == 2);
  CHECK(both.methods[0].mean.value == doctest::Approx((0.625 + 0.125) / 2));
  CHECK(!both.methods[0].mean.interval);  // one of its tasks has a single run
  CHECK(!both.comparisons[0].probability_of_improvement.interval);
  CHECK(mentions(message_of<UserError>([] { aggregate(ScoreTable("m", "", {"a"}, {"x"}, {1})); }), "no score of m"));
}

TEST_CASE("area under a curve: trapezoids, level before the first and behind the last point") {
  const std::vector<std::pair<double, double>> points = {{10, 0.5}, {20, 1}, {40, 0}};
  CHECK(area_under_curve(points, 40) == doctest::Approx((5 + 7.5 + 10) / 40));
  CHECK(area_under_curve(points, 80) == doctest::Approx(22.5 / 80));
  CHECK(area_under_curve(points, 15) == doctest::Approx((5 + 3.125) / 15));
  CHECK(area_under_curve(points, 5) == doctest::Approx(0.5));
  CHECK(height_at(points, 30) == doctest::Approx(0.5));
  CHECK(height_at(points, 0) == 0.5);
  CHECK(height_at(points, 50) == 0);
  const std::vector<std::pair<double, double>> back = {{10, 0.5}, {10, 1}};
  CHECK_THROWS_AS(area_under_curve(back, 40), std::invalid_argument);
  CHECK_THROWS_AS(area_under_curve({}, 40), std::invalid_argument);
  CHECK_THROWS_AS(area_under_curve(points, 0), std::invalid_argument);
}

TEST_CASE("quantiles interpolate linearly") {
  std::vector<double> values = {4, 1, 3, 2};
  CHECK(quantile(values, 0) == 1);
  CHECK(quantile(values, 1) == 4);
  CHECK(quantile(values, 0.5) == 2.5);
  CHECK(quantile(values, 0.025) == doctest::Approx(1.075));
}

TEST_CASE("a mean of curves has an interval at every place, from two curves on") {
  const std::vector<std::vector<double>> curves = {{0, 0.5, 1}, {0, 1, 1}, {0, 0, 1}};
  const std::vector<Estimate> mean = mean_curve(curves, {.resamples = 2000});
  REQUIRE(mean.size() == 3);
  CHECK(mean[1].value == doctest::Approx(0.5));
  CHECK(mean[1].interval->first == doctest::Approx(0));
  CHECK(mean[1].interval->second == doctest::Approx(1));
  CHECK(mean[2].interval->first == doctest::Approx(1));
  CHECK(!mean_curve({{1, 2}}, {})[0].interval);
  CHECK_THROWS_AS(mean_curve({}, {}), std::invalid_argument);
  CHECK_THROWS_AS(mean_curve({{1}, {1, 2}}, {}), std::invalid_argument);
}

TEST_CASE("no score of a task is an error, not a figure") {
  CHECK_THROWS_AS(interquartile_mean({}), std::invalid_argument);
  CHECK_THROWS_AS(mean_of_tasks({{}}), std::invalid_argument);
  CHECK_THROWS_AS(probability_of_improvement({{1}}, {{1}, {1}}), std::invalid_argument);
}

TEST_CASE("runs of one score have that score as every figure and as both ends of its interval") {
  for (const double score : {0.9, 1.0, 1.0 / 3}) {
    std::vector<std::uint64_t> seeds(11);
    std::iota(seeds.begin(), seeds.end(), std::uint64_t{0});
    ScoreTable table("success", "fraction", {"a", "b", "c"}, {"x", "y"}, seeds);
    std::ranges::fill(table.scores, std::optional(score));
    table.at(1, 0, 4).reset();  // tasks with different numbers of runs
    const AggregateScores figures = aggregate(table, {.resamples = 200});
    const auto is = [](const Estimate& estimate, double value) {
      return estimate.value == value && estimate.interval == std::pair(value, value);
    };
    for (const MethodScores& method : figures.methods) {
      for (const Estimate& figure : {method.interquartile_mean, method.mean, method.median}) CHECK(is(figure, score));
      CHECK(is(method.optimality_gap, 1 - score));
      for (int i = 0; i < kProfileThresholds; ++i)
        CHECK(is(method.profile[static_cast<std::size_t>(i)], profile_threshold(i) < score ? 1 : 0));
    }
    for (const auto& row : figures.cells)
      for (const auto& cell : row) CHECK(is(*cell, score));
    CHECK(is(*figures.comparisons.at(0).paired_difference, 0));
    for (const Estimate& place : mean_curve(std::vector<std::vector<double>>(11, {score, 0.1}), {.resamples = 200}))
      CHECK(place.interval == std::pair(place.value, place.value));
  }
}
