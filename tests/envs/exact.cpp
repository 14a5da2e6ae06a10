// The functions of base/exact.h against the standard library's in extended precision, and against known distributions.
#include "base/exact.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <random>
#include <vector>

using namespace engram;

namespace {

// Distance in units in the last place of `right`, which has 11 bits more than a double.
double units_off(double value, long double right) {
  const auto nearest = static_cast<double>(right);
  const double unit = std::nextafter(std::abs(nearest), std::numeric_limits<double>::infinity()) - std::abs(nearest);
  return static_cast<double>(std::abs(static_cast<long double>(value) - right) / unit);
}

}  // namespace

// long double has 64 bits of precision here; where it had not, there would be nothing to compare with.
static_assert(std::numeric_limits<long double>::digits >= 64);

TEST_CASE("a product of two numbers and its error add up to it, exactly") {
  std::mt19937_64 random(1);
  std::uniform_real_distribution<double> draw(-1, 1);
  for (int i = 0; i < 100'000; ++i) {
    const double a = draw(random), b = draw(random);
    const exact::Double2 product = exact::two_product(a, b);
    REQUIRE(product.high == a * b);
    REQUIRE(product.low == std::fma(a, b, -product.high));
  }
}

TEST_CASE(
    "sine and cosine of a pole's angles are the nearest numbers nearly always, those of an eighth of a turn near") {
  std::mt19937_64 random(1);
  constexpr int kTrials = 1'000'000;
  // Of 2 million results of each within 0.21, 6 sines and 27 cosines were not the nearest number; of glibc 2.36's 4,977
  // and 323.
  for (const double most : {1e-3, 0.03, 0.21, 0.7853981633974483}) {
    CAPTURE(most);
    const double bound = most <= 0.21 ? 0.5005 : 0.56;
    int sines = 0, cosines = 0;
    std::uniform_real_distribution<double> draw(-most, most);
    for (int i = 0; i < kTrials; ++i) {
      const double x = i < 2 ? (i == 0 ? most : -most) : draw(random);
      const auto [sine, cosine] = exact::sine_cosine(x);
      const long double right_sine = std::sin(static_cast<long double>(x)),
                        right_cosine = std::cos(static_cast<long double>(x));
      REQUIRE(units_off(sine, right_sine) <= bound);
      REQUIRE(units_off(cosine, right_cosine) <= bound);
      sines += sine != static_cast<double>(right_sine);
      cosines += cosine != static_cast<double>(right_cosine);
      // The library's, which are not the nearest themselves now and then.
      REQUIRE(std::abs(sine - std::sin(x)) <= 2.3e-16);
      REQUIRE(std::abs(cosine - std::cos(x)) <= 2.3e-16);
    }
    if (most > 0.21) continue;
    // Rounding twice, by way of long double, adds one in some 2,000.
    CHECK(sines < kTrials / 1'000);
    CHECK(cosines < kTrials / 1'000);
  }
  CHECK(exact::sine_cosine(0).sine == 0);
  CHECK(exact::sine_cosine(0).cosine == 1);
}

TEST_CASE("sine and cosine of any angle are near, whatever turns there are to take off") {
  std::mt19937_64 random(1);
  for (const double most : {1.0, 4.0, 100.0, 1e4, 1e6}) {
    CAPTURE(most);
    std::uniform_real_distribution<double> draw(-most, most);
    for (int i = 0; i < 200'000; ++i) {
      // Near multiples of a quarter turn, too, where most of the digits are taken off.
      double x = draw(random);
      if (i % 4 == 0) x = std::rint(x / 1.5707963267948966) * 1.5707963267948966;
      const auto [sine, cosine] = exact::sine_cosine_of_any(x);
      REQUIRE(units_off(sine, std::sin(static_cast<long double>(x))) <= 0.56);
      REQUIRE(units_off(cosine, std::cos(static_cast<long double>(x))) <= 0.56);
    }
  }
  for (const double x : {0.0, 0.3, -0.7}) {  // no turn: the same bits
    CHECK(exact::sine_cosine_of_any(x).sine == exact::sine_cosine(x).sine);
    CHECK(exact::sine_cosine_of_any(x).cosine == exact::sine_cosine(x).cosine);
  }
}

TEST_CASE("the logarithm of a share is near over its whole range") {
  std::mt19937_64 random(1);
  for (int i = 0; i < 1'000'000; ++i) {
    const double x = std::ldexp(static_cast<double>((random() >> 32) + 1), -32 - (i % 2 == 0 ? 0 : i % 200));
    if (x == 1) continue;
    REQUIRE(units_off(exact::log_of_share(x), std::log(static_cast<long double>(x))) <= 4);
  }
  CHECK(exact::log_of_share(1) == 0);
}

TEST_CASE("normal numbers are distributed so, both of a pair, and independently") {
  Rng rng(1, Purpose::kTest, 0, 0);
  constexpr int kPairs = 1'000'000, kBins = 64;
  std::vector<int> bins_first(kBins), bins_second(kBins);
  double squares_first = 0, squares_second = 0, product = 0, product_of_squares = 0;
  const auto bin = [](double z) {
    const double share = 0.5 * std::erfc(-z / std::sqrt(2.0));
    return std::min(kBins - 1, static_cast<int>(kBins * share));
  };
  for (int i = 0; i < kPairs; ++i) {
    const auto [first, second] = exact::normal_pair(rng);
    ++bins_first[static_cast<std::size_t>(bin(first))];
    ++bins_second[static_cast<std::size_t>(bin(second))];
    squares_first += first * first;
    squares_second += second * second;
    product += first * second;
    product_of_squares += (first * first - 1) * (second * second - 1);
  }
  // Five standard errors each: of a square 2, of a product 1, of a product of squares 4.
  const double error = 5 / std::sqrt(static_cast<double>(kPairs));
  CHECK(std::abs(squares_first / kPairs - 1) <= error * std::sqrt(2.0));
  CHECK(std::abs(squares_second / kPairs - 1) <= error * std::sqrt(2.0));
  CHECK(std::abs(product / kPairs) <= error);
  CHECK(std::abs(product_of_squares / kPairs) <= error * 2);
  // 63 degrees of freedom; more than 112 once in 10,000.
  for (const std::vector<int>& bins : {bins_first, bins_second}) {
    double chi_squared = 0;
    for (const int count : bins) chi_squared += std::pow(count - kPairs / kBins, 2) * kBins / kPairs;
    CHECK(chi_squared < 112);
  }
}
