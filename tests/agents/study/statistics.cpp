#include "agents/study/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <vector>

using namespace engram;

TEST_CASE("the mean of equal values is their value, that of ones and zeros a count divided once") {
  for (const double value : {0.1, -1.1, 1.0 / 3, 1e-300, 0.9, 7.0})
    for (int count = 1; count <= 1000; ++count) {
      const std::vector<double> values(static_cast<std::size_t>(count), value);
      REQUIRE(mean_of(values) == value);
      REQUIRE(mean_interval(values).estimate == value);
      if (count > 1) REQUIRE(mean_interval(values).high == value);
    }
  for (int count = 1; count <= 200; ++count) {
    std::vector<double> values(static_cast<std::size_t>(count), 0);
    for (int ones = 0; ones < count; ++ones) {
      REQUIRE(mean_of(values) == static_cast<double>(ones) / count);
      values[static_cast<std::size_t>(ones)] = 1;
    }
  }
  CHECK_THROWS_AS(mean_of({}), std::invalid_argument);
}

TEST_CASE("Wilson's interval has the values of Newcombe (1998), table I") {
  struct Published {
    int successes, count;
    double low, high;
  };
  for (const Published& published : {Published{81, 263, 0.2553, 0.3662}, Published{15, 148, 0.0624, 0.1605},
                                     Published{0, 20, 0, 0.1611}, Published{1, 29, 0.0061, 0.1718}}) {
    const Interval interval = wilson_interval(published.successes, published.count);
    CHECK(interval.estimate == doctest::Approx(static_cast<double>(published.successes) / published.count));
    // Published with four digits.
    CHECK(std::abs(interval.low - published.low) <= 0.5e-4);
    CHECK(std::abs(interval.high - published.high) <= 0.5e-4);
  }
}

TEST_CASE("Wilson's interval ends exactly at 0 and 1, and is symmetric") {
  for (const int count : {1, 3, 20, 1000}) {
    CHECK(wilson_interval(0, count).low == 0);
    CHECK(wilson_interval(count, count).high == 1);
    CHECK(wilson_interval(0, count).high == doctest::Approx(1 - wilson_interval(count, count).low));
  }
  CHECK_THROWS_AS(wilson_interval(1, 0), std::invalid_argument);
  CHECK_THROWS_AS(wilson_interval(3, 2), std::invalid_argument);
  CHECK_THROWS_AS(wilson_interval(-1, 2), std::invalid_argument);
}

TEST_CASE("quantiles of Student's t are those of the printed tables") {
  struct Published {
    double probability;
    int degrees;
    double quantile;
  };
  for (const Published& published :
       {Published{0.975, 1, 12.706}, Published{0.975, 2, 4.303}, Published{0.975, 3, 3.182}, Published{0.975, 4, 2.776},
        Published{0.975, 9, 2.262}, Published{0.975, 19, 2.093}, Published{0.975, 30, 2.042},
        Published{0.975, 120, 1.980}, Published{0.995, 5, 4.032}, Published{0.9, 10, 1.372}})
    // Printed with three digits.
    CHECK(std::abs(student_t_quantile(published.probability, published.degrees) - published.quantile) <= 0.5e-3);
  CHECK(student_t_quantile(0.975, 100'000) == doctest::Approx(1.95999).epsilon(1e-4));
  CHECK_THROWS_AS(student_t_quantile(0.975, 0), std::invalid_argument);
}

TEST_CASE("the mean's interval is that of Student's sleep data (1908)") {
  const std::vector<double> more_sleep{1.2, 2.4, 1.3, 1.3, 0.0, 1.0, 1.8, 0.8, 4.6, 1.4};
  const Interval interval = mean_interval(more_sleep);
  CHECK(interval.estimate == doctest::Approx(1.58).epsilon(1e-12));
  // R's t.test prints seven digits.
  CHECK(interval.low == doctest::Approx(0.7001142).epsilon(1e-6));
  CHECK(interval.high == doctest::Approx(2.4598858).epsilon(1e-6));
}

TEST_CASE("a single value says nothing about its spread") {
  const Interval interval = mean_interval(std::vector<double>{3});
  CHECK(interval.estimate == 3);
  CHECK(std::isinf(interval.low));
  CHECK(std::isinf(interval.high));
  CHECK_THROWS_AS(mean_interval({}), std::invalid_argument);
}

TEST_CASE("the area under the curve of separated, equal, reversed and overlapping values") {
  using Values = std::vector<double>;
  CHECK(area_under_curve(Values{3, 4, 5}, Values{1, 2}) == 1);
  CHECK(area_under_curve(Values{2, 2, 2}, Values{2, 2}) == 0.5);
  CHECK(area_under_curve(Values{1, 2}, Values{3, 4, 5}) == 0);
  CHECK(area_under_curve(Values{4, 1}, Values{3, 0}) == 0.75);
  // Of 12 pairs: 3 beats 1, 2, 2 and draws with 3; 2 beats 1 and draws twice; 1 draws once.
  CHECK(area_under_curve(Values{3, 2, 1}, Values{2, 1, 3, 2}) == doctest::Approx((3.5 + 2.0 + 0.5) / 12));
  CHECK_THROWS_AS(area_under_curve(Values{}, Values{1}), std::invalid_argument);
  CHECK_THROWS_AS(area_under_curve(Values{1}, Values{}), std::invalid_argument);
  CHECK_THROWS_AS(area_under_curve(Values{1}, Values{std::nan("")}), std::invalid_argument);
}
