// Means and intervals for what an evaluation measures: a success rate and a mean return.
#pragma once

#include <cstdint>
#include <span>

namespace engram {

struct Interval {
  double estimate;
  double low, high;  // of the 95% interval
};

// What episodes that were played alike were measured to be.
struct MeasuredEpisodes {
  Interval success;       // Wilson's
  Interval total_return;  // undiscounted; Student's, infinite for a single episode
};

// The mean of at least one value. Summed in long double and divided once, so that the mean of equal values is their
// value, and that of ones and zeros the count divided by the number. Throws std::invalid_argument for no value.
double mean_of(std::span<const double> values);

// The sample's standard deviation; 0 of a single value. Throws std::invalid_argument for no value.
double sample_deviation(std::span<const double> values);

// Success rate with Wilson's score interval (Wilson 1927; Brown, Cai and DasGupta 2001), which stays inside [0, 1] and
// is not empty at 0 or `count` successes. Throws std::invalid_argument unless 0 <= successes <= count and count >= 1.
Interval wilson_interval(std::int64_t successes, std::int64_t count);

// Mean with Student's t interval: mean +- t(0.975, n-1) s / sqrt(n), s the sample's standard deviation. One value gives
// an infinite interval. Throws std::invalid_argument for no value.
Interval mean_interval(std::span<const double> values);

// The quantile t with P(T <= t) = probability of Student's distribution; degrees >= 1, 0.5 <= probability < 1.
double student_t_quantile(double probability, std::int64_t degrees);

// Area under the curve of receiver operating characteristics: the probability that one of `positive` is larger than one
// of `negative`, ties counted half (Mann and Whitney 1947, their U over the number of pairs; Hanley and McNeil 1982).
// 1: all larger, 0.5: no better than chance, 0: all smaller. Throws std::invalid_argument for no value or NaN.
double area_under_curve(std::span<const double> positive, std::span<const double> negative);

}  // namespace engram
