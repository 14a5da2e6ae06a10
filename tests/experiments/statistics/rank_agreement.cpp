#include "experiments/statistics/rank_agreement.h"

#include <doctest/doctest.h>

#include <cmath>
#include <optional>
#include <stdexcept>
#include <utility>
#include <vector>

using namespace engram;

namespace {

std::optional<double> tau(const std::vector<double>& x, const std::vector<double>& y) { return kendall_tau(x, y); }

}  // namespace

TEST_CASE("Kendall's tau-b is that of pairs counted by hand") {
  CHECK(tau({1, 2, 3, 4}, {10, 20, 30, 40}) == 1);
  CHECK(tau({1, 2, 3, 4}, {4, 3, 2, 1}) == -1);
  CHECK(tau({1, 2, 3}, {1, 3, 2}).value() == doctest::Approx(1.0 / 3));  // 2 pairs alike, 1 opposite
  // Of 10 pairs x ties 1 and y ties 2, all different ones; of the 7 others 5 are alike and 2 opposite.
  CHECK(tau({1, 2, 2, 3, 4}, {1, 1, 3, 2, 2}).value() == doctest::Approx((5 - 2) / std::sqrt(9.0 * 8.0)));
  CHECK_FALSE(tau({1, 1, 1}, {1, 2, 3}));
  CHECK_FALSE(tau({1, 2, 3}, {5, 5, 5}));
  CHECK_FALSE(tau({}, {}));
  CHECK_THROWS_AS(tau({1}, {1, 2}), std::invalid_argument);
}

TEST_CASE("a method's score is the mean over tasks of the mean of its runs") {
  // By x: 0.5, 0.3, 0.1; by y: 0.2, 0.3, 0.1. More runs of one task do not count for more.
  const std::vector<TaskScores> x = {{{1, 1, 1}, {0}}, {{0.3}, {0.3}}, {{0.1}, {0.1}}};
  const std::vector<TaskScores> y = {{{0.2}, {0.2}}, {{0.3}, {0.3}}, {{0.1}, {0.1}}};
  const auto estimate = rank_agreement(x, y, {.resamples = 1000});
  REQUIRE(estimate);
  CHECK(estimate->value == doctest::Approx(1.0 / 3));
  CHECK_FALSE(estimate->interval);  // single runs
  CHECK_FALSE(rank_agreement({{{0.0, 0.0}}, {{0.0, 0.0}}}, {{{0.0, 1.0}}, {{0.0, 0.0}}}, {.resamples = 1000}));
  CHECK_THROWS_AS(rank_agreement({{{1.0}}}, {{{1.0}}, {{0.0}}}), std::invalid_argument);
}

TEST_CASE("the interval is what resampling runs leaves of the order") {
  // Runs that never overlap keep their order in every resample.
  const auto sure = rank_agreement({{{0.9, 1.0}}, {{0.4, 0.5}}, {{0.0, 0.1}}},
                                   {{{0.8, 0.9}}, {{0.5, 0.6}}, {{0.1, 0.2}}}, {.resamples = 1000});
  REQUIRE((sure && sure->interval));
  CHECK(sure->value == 1);
  CHECK(*sure->interval == std::pair(1.0, 1.0));
  // Two methods of which the one's runs are 0 and 1 and the other's 0.4 and 0.6 are in each order in a quarter and more
  // of the resamples, by x; by y never in doubt.
  const std::vector<TaskScores> x = {{{0.0, 1.0}}, {{0.4, 0.5}}}, y = {{{1.0, 1.0}}, {{0.0, 0.0}}};
  const auto open = rank_agreement(x, y, {.resamples = 1000});
  REQUIRE((open && open->interval));
  CHECK(open->value == 1);
  CHECK(*open->interval == std::pair(-1.0, 1.0));
  const auto again = rank_agreement(x, y, {.resamples = 1000, .threads = 3});
  CHECK(again->interval == open->interval);
}
