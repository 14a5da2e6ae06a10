// Bootstrap intervals: figures of runs that are drawn again, with replacement, as many as there are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/machine/processors.h"
#include "base/rng.h"

namespace engram {

struct Estimate {
  double value = 0;
  // Of the 95% bootstrap interval (percentiles 2.5 and 97.5); none where a task has fewer than two runs.
  std::optional<std::pair<double, double>> interval;
};

struct BootstrapOptions {
  int resamples = 50'000;
  std::uint64_t seed = 0;
  int threads = 0;  // 0: all processors available. The figures do not depend on it
};

// The value below which a fraction of `values`, which it reorders, lies, interpolated linearly as numpy.percentile
// does. Throws std::invalid_argument for no value, or a fraction that is none.
double quantile(std::span<double> values, double fraction);

// Pointwise mean of curves sampled at the same places (run, then place), with intervals from resampling whole curves.
// Throws std::invalid_argument for no curve or unequal lengths.
std::vector<Estimate> mean_curve(const std::vector<std::vector<double>>& curves, const BootstrapOptions& options);

// Draws that a stratum (the runs of one method in one task) makes in one resample: a stream of its own, so that neither
// the order nor the number of threads matters. Four draws a block; a multiple of the run's number is never preferred,
// except by less than count / 2^32.
class BootstrapDraws {
 public:
  BootstrapDraws(std::uint64_t seed, std::size_t stratum, std::size_t resample)
      : key0_(static_cast<std::uint32_t>(seed)),
        key1_(static_cast<std::uint32_t>(seed >> 32)),
        stratum_(static_cast<std::uint32_t>(stratum)),
        resample_(static_cast<std::uint32_t>(resample)) {}

  std::size_t below(std::size_t count) {
    if (used_ == 4) {
      block_ = philox4x32_10({{blocks_++, resample_, stratum_, static_cast<std::uint32_t>(Purpose::kBootstrap)}}, key0_,
                             key1_);
      used_ = 0;
    }
    return static_cast<std::size_t>((std::uint64_t{block_.word[used_++]} * count) >> 32);
  }

 private:
  std::uint32_t key0_, key1_, stratum_, resample_;
  std::uint32_t blocks_ = 0;
  int used_ = 4;
  PhiloxBlock block_{};
};

// Calls work(resample, scratch) for every resample, in several threads of which each has a Scratch and resamples that
// follow each other.
template <class Scratch, class Work>
void for_each_resample(const BootstrapOptions& options, const Work& work) {
  const int threads = std::clamp(options.threads > 0 ? options.threads : available_processors(), 1, 64);
  const auto first_of = [&](int thread) {
    return static_cast<std::size_t>(std::int64_t{options.resamples} * thread / threads);
  };
  const auto part = [&](int thread) {
    Scratch scratch;
    for (std::size_t resample = first_of(thread); resample < first_of(thread + 1); ++resample) work(resample, scratch);
  };
  std::vector<std::thread> helpers;
  for (int thread = 1; thread < threads; ++thread) helpers.emplace_back(part, thread);
  part(0);
  for (std::thread& helper : helpers) helper.join();
}

// Resampled figures, a row a figure.
class BootstrapDistribution {
 public:
  BootstrapDistribution(std::size_t figures, const BootstrapOptions& options)
      : resamples_(static_cast<std::size_t>(options.resamples)), values_(figures * resamples_) {}

  void set(std::size_t figure, std::size_t resample, double value) { values_[figure * resamples_ + resample] = value; }
  // Reorders the figure's row.
  Estimate estimate(std::size_t figure, double value);

 private:
  std::size_t resamples_;
  std::vector<double> values_;
};

}  // namespace engram
