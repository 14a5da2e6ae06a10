#include "experiments/statistics/bootstrap.h"

#include <stdexcept>

#include "agents/study/statistics.h"

namespace engram {

double quantile(std::span<double> values, double fraction) {
  if (values.empty() || !(fraction >= 0 && fraction <= 1)) throw std::invalid_argument("quantile of nothing");
  const double place = fraction * static_cast<double>(values.size() - 1);
  const auto below = static_cast<std::size_t>(place);
  const auto nth = values.begin() + static_cast<std::ptrdiff_t>(below);
  std::nth_element(values.begin(), nth, values.end());
  if (below + 1 == values.size()) return *nth;
  const double next = *std::min_element(nth + 1, values.end());
  return *nth + (next - *nth) * (place - static_cast<double>(below));
}

std::vector<Estimate> mean_curve(const std::vector<std::vector<double>>& curves, const BootstrapOptions& options) {
  if (curves.empty()) throw std::invalid_argument("the mean of no curve");
  const std::size_t places = curves[0].size();
  std::vector<Estimate> means(places);
  for (const std::vector<double>& curve : curves)
    if (curve.size() != places) throw std::invalid_argument("curves of different lengths");
  for (std::size_t i = 0; i < places; ++i) {
    std::vector<double> heights;
    for (const std::vector<double>& curve : curves) heights.push_back(curve[i]);
    means[i].value = mean_of(heights);
  }
  if (curves.size() < 2) return means;
  BootstrapDistribution distribution(places, options);
  for_each_resample<std::vector<long double>>(options, [&](std::size_t resample, std::vector<long double>& sum) {
    sum.assign(places, 0);
    BootstrapDraws draws(options.seed, 0, resample);
    for (std::size_t run = 0; run < curves.size(); ++run) {
      const std::vector<double>& curve = curves[draws.below(curves.size())];
      for (std::size_t i = 0; i < places; ++i) sum[i] += curve[i];
    }
    for (std::size_t i = 0; i < places; ++i)
      distribution.set(i, resample, static_cast<double>(sum[i] / static_cast<long double>(curves.size())));
  });
  for (std::size_t i = 0; i < places; ++i) means[i] = distribution.estimate(i, means[i].value);
  return means;
}

Estimate BootstrapDistribution::estimate(std::size_t figure, double value) {
  constexpr double kTail = 0.025;  // of a 95% interval, on each side
  const std::span<double> row(&values_[figure * resamples_], resamples_);
  const double low = quantile(row, kTail);
  return {value, std::pair(low, quantile(row, 1 - kTail))};
}

}  // namespace engram
