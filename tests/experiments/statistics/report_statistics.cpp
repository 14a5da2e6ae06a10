#include <doctest/doctest.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "experiments/statistics/run_statistics.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

// Two tasks, three methods, six seeds: `few` has four runs of the second task, `late` begins with the third seed.
ScoreTable uneven_table() {
  ScoreTable table("success", "fraction", {"a", "b"}, {"full", "few", "late"}, {1, 2, 3, 4, 5, 6});
  for (std::size_t task = 0; task < 2; ++task)
    for (std::size_t method = 0; method < 3; ++method)
      for (std::size_t seed = 0; seed < 6; ++seed) {
        if ((method == 1 && task == 1 && seed >= 4) || (method == 2 && seed == 0)) continue;
        table.at(task, method, seed) = 0.1 * static_cast<double>(seed + method + task);
      }
  return table;
}

}  // namespace

TEST_CASE("figures that rest on fewer than five runs of a task are shown without an interval") {
  const ScoreTable table = uneven_table();
  const AggregateScores all = aggregate(table, {.resamples = 1000}), shown = with_trusted_intervals(all, table);
  REQUIRE(all.cells[1][1]->interval);
  CHECK(!shown.cells[1][1]->interval);
  for (const auto& [task, method] : {std::pair(0, 0), {0, 1}, {1, 0}, {0, 2}, {1, 2}}) {
    CAPTURE(task);
    CAPTURE(method);
    const auto& cell = shown.cells[static_cast<std::size_t>(task)][static_cast<std::size_t>(method)];
    REQUIRE(cell->interval);
    CHECK(cell->value == all.cells[static_cast<std::size_t>(task)][static_cast<std::size_t>(method)]->value);
  }
  REQUIRE(shown.methods.size() == 3);
  for (std::size_t method = 0; method < 3; ++method) {
    const MethodScores &own = shown.methods[method], &before = all.methods[method];
    for (const auto figure : {&MethodScores::interquartile_mean, &MethodScores::mean, &MethodScores::median,
                              &MethodScores::optimality_gap}) {
      CHECK((own.*figure).interval.has_value() == (method != 1));
      CHECK((own.*figure).value == (before.*figure).value);
    }
    CHECK(own.profile[50].interval.has_value() == (method != 1));
  }
  REQUIRE(shown.comparisons.size() == 3);
  for (const MethodComparison& pair : shown.comparisons) {
    const bool of_few = pair.x == "few" || pair.y == "few";
    CHECK(pair.probability_of_improvement.interval.has_value() == !of_few);
    CHECK(pair.paired_difference->interval.has_value() == !of_few);
  }
}

TEST_CASE("a score that no run has stays without figures") {
  const ScoreTable table("s", "fraction", {"task"}, {"x", "y"}, {1, 2});
  const AggregateScores shown = with_trusted_intervals(AggregateScores{}, table);
  CHECK((shown.cells.empty() && shown.methods.empty() && shown.comparisons.empty()));
}

TEST_CASE("pairs are counted as pairs: five runs each that share four seeds") {
  ScoreTable table("success", "fraction", {"a"}, {"x", "y"}, {1, 2, 3, 4, 5, 6});
  for (std::size_t seed = 0; seed < 6; ++seed) {
    if (seed != 0) table.at(0, 0, seed) = 0.1 * static_cast<double>(seed);
    if (seed != 5) table.at(0, 1, seed) = 0.05 * static_cast<double>(seed);
  }
  const AggregateScores shown = with_trusted_intervals(aggregate(table, {.resamples = 1000}), table);
  CHECK(shown.comparisons[0].probability_of_improvement.interval);
  CHECK(!shown.comparisons[0].paired_difference->interval);
}

TEST_CASE("of many methods the best have curves, and the controls and the reference, and all stand in a matrix") {
  constexpr std::size_t kMethods = 14;
  std::vector<PlottedMethod> methods;
  std::vector<std::string> labels;
  for (std::size_t method = 0; method < kMethods; ++method) {
    labels.push_back("m" + std::to_string(method));
    methods.push_back({labels.back(), /*control=*/method == 1});
  }
  ScoreTable table("success", "fraction", {"a", "b"}, labels, {1});
  for (std::size_t method = 0; method < kMethods; ++method) table.at(0, method, 0) = 0.05 * static_cast<double>(method);
  table.at(1, 5, 0) = 1;  // a mean of 0.625, the second after m13
  const AggregateScores scores = aggregate(table, {.resamples = 100});
  const std::vector<bool> drawn = methods_to_draw(scores, methods, "m2");
  for (std::size_t method = 0; method < kMethods; ++method) {
    CAPTURE(method);
    CHECK(drawn[method] == (method == 1 || method == 2 || method == 5 || method >= 7));
  }
  CHECK(which_are_drawn(drawn) == " Of the 14 backbones 10: controls, the reference and those with the highest means.");

  const std::vector<PlottedMethod> few(methods.begin(), methods.begin() + kMostCurves);
  CHECK(methods_to_draw({}, few) == std::vector<bool>(kMostCurves, true));
  CHECK(which_are_drawn(methods_to_draw({}, few)).empty());

  const TemporaryFolder folder;
  matrix_plot(scores, "success", table.tasks, {0.25, 0}, methods, folder.path());
  const std::string data = read_text(folder / "matrix.dat"), script = read_text(folder / "matrix.gp");
  CHECK(mentions(data, "\n0 0 25 0xF7F7F7 "));  // m5 in task a: chance
  CHECK(mentions(data, "\n1 0 100 "));          // in task b, of which no other has a run
  CHECK(mentions(data, "\n0 1 65 "));           // m13
  CHECK(!mentions(data, "\n1 1 "));
  CHECK(mentions(script, "'m5' 0, 'm13' 1, 'm12' 2"));
  CHECK(mentions(script, "'m0' 12, 'm1' 13"));  // the control
}

TEST_CASE("of two to four runs each one's figure stands beside their mean") {
  CHECK(runs_line({"50.0"}).empty());
  CHECK(runs_line({"50.0", "70.0"}) == "\nruns 50.0, 70.0");
  CHECK(runs_line({"1", "2", "3", "4"}) == "\nruns 1, 2, 3, 4");
  CHECK(runs_line({"1", "2", "3", "4", "5"}).empty());
}
