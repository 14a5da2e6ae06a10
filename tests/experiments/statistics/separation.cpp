#include "experiments/statistics/separation.h"

#include <doctest/doctest.h>

#include <vector>

using namespace engram;

namespace {

// Judges, four each, of six targets: Shrout and Fleiss, "Intraclass correlations: uses in assessing rater reliability",
// Psychological Bulletin 1979, table 2.
const std::vector<std::vector<double>> kRatings = {{9, 2, 5, 8}, {6, 1, 3, 2},  {8, 4, 6, 8},
                                                   {7, 1, 2, 6}, {10, 5, 6, 9}, {6, 2, 4, 7}};

TaskRuns telling_runs() {
  return {.memories = {{0.9, 0.95, 1, 0.9}, {0.3, 0.35, 0.3, 0.4}, {0.6, 0.5, 0.55, 0.6}},
          .shown_all = {{1, 1, 0.9, 1}},
          .memoryless = {0.3, 0.35, 0.3, 0.25},
          .chance = 0.25};
}

}  // namespace

TEST_CASE("the intraclass correlation is Shrout and Fleiss's ICC(1,1), with their example's interval") {
  const auto found = intraclass_correlation(kRatings);
  REQUIRE(found);
  CHECK(found->value == doctest::Approx(0.1657).epsilon(0.001));
  CHECK(found->interval->first == doctest::Approx(-0.1329).epsilon(0.001));
  CHECK(found->interval->second == doctest::Approx(0.7226).epsilon(0.001));
}

TEST_CASE("groups of several sizes, of one run, of none, and of the same runs") {
  // By hand: means 1.5, 4, 6 of 2, 1, 3; mean squares 73 / 6 between and 6.5 / 3 within, size (6 - 14 / 6) / 2.
  const auto uneven = intraclass_correlation({{1, 2}, {4}, {5, 5, 8}, {}});
  REQUIRE(uneven);
  const double ratio = (73.0 / 6) / (6.5 / 3), size = (6 - 14.0 / 6) / 2;
  CHECK(uneven->value == doctest::Approx((ratio - 1) / (ratio - 1 + size)));
  CHECK(!intraclass_correlation({{1, 2, 3}}));
  CHECK(!intraclass_correlation({{1}, {2}, {3}}));
  CHECK(!intraclass_correlation({{0.1, 0.1}, {0.1, 0.1}}));
  CHECK(!intraclass_correlation({}));
  const auto certain = intraclass_correlation({{0, 0}, {1, 1}});
  REQUIRE(certain);
  CHECK(certain->value == 1);
}

TEST_CASE("a task tells memories apart where it can be done, not without memory, and memories differ") {
  const Separation yes = separation_of(telling_runs());
  CHECK(yes.tells_apart() == true);
  CHECK(yes.intraclass_correlation->value > 0.9);

  TaskRuns runs = telling_runs();
  runs.shown_all = {{0.5, 0.6}};
  CHECK(separation_of(runs).tells_apart() == true);  // a memory's run is at the top
  for (auto& memory : runs.memories)
    for (double& success : memory) success *= 0.8;
  const Separation hard = separation_of(runs);
  CHECK(hard.can_be_done == false);
  CHECK(hard.tells_apart() == false);

  runs = telling_runs();
  runs.memoryless = {0.95, 1, 1};
  CHECK(separation_of(runs).needs_memory == false);
  CHECK(separation_of(runs).tells_apart() == false);

  runs = telling_runs();
  runs.memories = {{0.3, 0.9, 0.25, 0.8}, {0.35, 0.85, 0.3, 0.8}, {0.8, 0.3, 0.9, 0.25}};
  CHECK(separation_of(runs).memories_differ == false);
}

TEST_CASE("what is below chance is no difference in memory") {
  TaskRuns runs = telling_runs();
  runs.memories = {{0.2, 0.25, 0.2, 0.3}, {0, 0.01, 0, 0.02}, {0.1, 0.12, 0.1, 0.11}};
  runs.chance.reset();
  CHECK(separation_of(runs).memories_differ == true);
  runs.chance = 0.25;
  CHECK(separation_of(runs).memories_differ == false);
  runs.chance = 0.5;
  const Separation same = separation_of(runs);
  CHECK(!same.intraclass_correlation);
  CHECK(same.memories_differ == false);
}

TEST_CASE("what no run tells is not known") {
  TaskRuns runs = telling_runs();
  runs.memoryless.clear();
  CHECK(!separation_of(runs).tells_apart().has_value());
  runs = telling_runs();
  runs.memories.resize(1);
  CHECK(!separation_of(runs).memories_differ.has_value());
  CHECK(!separation_of(runs).tells_apart().has_value());
  CHECK(!separation_of({}).can_be_done.has_value());
  runs = telling_runs();
  runs.shown_all.clear();
  CHECK(separation_of(runs).can_be_done == true);
  runs.memories.erase(runs.memories.begin());
  CHECK(!separation_of(runs).can_be_done.has_value());  // nobody was shown all
  runs = telling_runs();
  for (auto& memory : runs.memories) memory.resize(1);
  CHECK(!separation_of(runs).memories_differ.has_value());
}
