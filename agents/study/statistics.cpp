#include "agents/study/statistics.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <stdexcept>
#include <string>
#include <vector>

namespace engram {
namespace {

constexpr double kNormalQuantile = 1.959963984540054;  // of 0.975

// P(|T| <= t) for whole degrees of freedom, the finite series of Abramowitz and Stegun 26.7.3 and 26.7.4.
double central_probability(double t, std::int64_t degrees) {
  const double angle = std::atan(t / std::sqrt(static_cast<double>(degrees)));
  const double cosine_squared = std::cos(angle) * std::cos(angle);
  const bool odd = degrees % 2 == 1;
  double term = odd ? std::cos(angle) : 1;
  double sum = degrees == 1 ? 0 : term;
  for (std::int64_t k = odd ? 3 : 2; k <= degrees - 2; k += 2) {
    term *= cosine_squared * static_cast<double>(k - 1) / static_cast<double>(k);
    sum += term;
  }
  const double series = std::sin(angle) * sum;
  return odd ? 2 / std::numbers::pi * (angle + series) : series;
}

}  // namespace

double mean_of(std::span<const double> values) {
  if (values.empty()) throw std::invalid_argument("the mean of no value");
  long double sum = 0;
  for (const double value : values) sum += value;
  return static_cast<double>(sum / static_cast<long double>(values.size()));
}

double sample_deviation(std::span<const double> values) {
  const double mean = mean_of(values);
  if (values.size() == 1) return 0;
  double squares = 0;
  for (const double value : values) squares += (value - mean) * (value - mean);
  return std::sqrt(squares / (static_cast<double>(values.size()) - 1));
}

Interval wilson_interval(std::int64_t successes, std::int64_t count) {
  if (count < 1 || successes < 0 || successes > count)
    throw std::invalid_argument(std::to_string(successes) + " successes of " + std::to_string(count) + " episodes");
  const double n = static_cast<double>(count);
  const double rate = static_cast<double>(successes) / n;
  const double z2 = kNormalQuantile * kNormalQuantile;
  const double centre = (rate + z2 / (2 * n)) / (1 + z2 / n);
  const double half = kNormalQuantile / (1 + z2 / n) * std::sqrt(rate * (1 - rate) / n + z2 / (4 * n * n));
  // At the ends the bound is exactly the rate; rounding must not push it beyond.
  return {rate, successes == 0 ? 0 : centre - half, successes == count ? 1 : centre + half};
}

double student_t_quantile(double probability, std::int64_t degrees) {
  if (degrees < 1 || !(probability >= 0.5 && probability < 1))
    throw std::invalid_argument("t quantile of probability " + std::to_string(probability) + " with " +
                                std::to_string(degrees) + " degrees of freedom");
  const double central = 2 * probability - 1;
  double low = 0, high = 1;
  while (central_probability(high, degrees) < central) high *= 2;
  while (high - low > 1e-13 * high) {
    const double middle = (low + high) / 2;
    (central_probability(middle, degrees) < central ? low : high) = middle;
  }
  return (low + high) / 2;
}

Interval mean_interval(std::span<const double> values) {
  const double n = static_cast<double>(values.size());
  const double mean = mean_of(values);
  if (values.size() == 1)
    return {mean, -std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity()};
  const double half =
      student_t_quantile(0.975, static_cast<std::int64_t>(values.size()) - 1) * sample_deviation(values) / std::sqrt(n);
  return {mean, mean - half, mean + half};
}

double area_under_curve(std::span<const double> positive, std::span<const double> negative) {
  const auto bad = [](std::span<const double> values) {
    return values.empty() || std::ranges::any_of(values, [](double value) { return std::isnan(value); });
  };
  if (bad(positive) || bad(negative)) throw std::invalid_argument("an area under the curve of no value or NaN");
  std::vector<double> sorted(negative.begin(), negative.end());
  std::ranges::sort(sorted);
  double above = 0;
  for (const double value : positive) {
    const auto [first, last] = std::ranges::equal_range(sorted, value);
    above += static_cast<double>(first - sorted.begin()) + static_cast<double>(last - first) / 2;
  }
  return above / (static_cast<double>(positive.size()) * static_cast<double>(negative.size()));
}

}  // namespace engram
