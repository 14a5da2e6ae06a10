// TuneOptions: the section [tune] of an experiment, or of a sweep: settings to try, and how the best of them are found.
//
//   [tune]
//   seeds = 100-101                            # of the tries; none of them may be one of the comparison's
//   tries = 6                                  # drawn from the grid of all values; 0, the default: all of it
//   draw_seed = 0                              # what they are drawn by
//   rungs = 0.25,0.5,1                         # successive halving: shares of run.steps after which the best go on
//   keep = 0.5                                 # the share of a rung's tries that go on
//   learner.learning_rate = 3e-4, 1e-3, 3e-3   # section.key = its values; [a,b] is one value
//   memory.layers = 1, 2
//
// Successive halving: Jamieson and Talwalkar, "Non-stochastic best arm identification and hyperparameter optimization",
// AISTATS 2016 (arXiv:1502.07943). All tries train to the first rung, the best share of them goes on to the next one
// from where it is, and so on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/options.h"
#include "storage/settings.h"

namespace engram {

struct TunedSetting {
  std::string key;                  // section.key
  std::vector<std::string> values;  // at least one, each once

  bool operator==(const TunedSetting&) const = default;
};

struct TuneOptions {
  std::vector<TunedSetting> settings;  // at least one
  std::vector<std::uint64_t> seeds;    // ascending, at least one
  int tries = 0;                       // 0: all of the grid
  std::uint64_t draw_seed = 0;
  double keep = 0.5;                           // in (0, 1)
  std::vector<double> rungs = {0.25, 0.5, 1};  // ascending, in (0, 1]; the last is 1

  bool operator==(const TuneOptions&) const = default;

  // `section`: the keys of [tune], without the section's name before them. Throws SettingError, with the key
  // "tune.KEY", for an unknown key, a value that is not allowed, a list that is empty or has a value twice, and a
  // setting that says what is learnt or measured, not how: of the sections task, evaluation and checkpoint, and those
  // of run that name the seed or change no result. With the key "[tune]": no seeds, no settings, too many tries.
  static TuneOptions from_settings(const Settings& section, const std::vector<std::string>& known_keys);
  // The section, as from_settings() reads it.
  std::string to_ini() const;

  // Of the tries of a rung those that go on to the next one: at least one.
  std::size_t kept_of(std::size_t tries) const;
};

// The grid of these settings, the last of them fastest; or `tries` of it (0: all) in the order of the grid, drawn
// without replacement by the seed and the grid's shape alone. `settings` may be empty: one try that sets nothing.
std::vector<Settings> tries_of(const std::vector<TunedSetting>& settings, int tries, std::uint64_t draw_seed);

// How many the grid has; at most kMostTries + 1.
inline constexpr std::size_t kMostTries = 10'000;
std::size_t grid_size(const std::vector<TunedSetting>& settings);

// "learner.learning_rate = 1e-3, memory.layers = 2"
std::string settings_text(const Settings& settings);

}  // namespace engram
