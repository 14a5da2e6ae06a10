// How far tuning (experiments/run/tune.h) has come, from its files: what is chosen, what is under way, what is ahead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "experiments/plan/plan.h"
#include "experiments/plan/tune_options.h"
#include "storage/settings.h"

namespace engram {

// Of the tries of one task, learner and backbone.
struct PlaceProgress {
  std::string place;
  std::optional<Settings> chosen;  // then nothing is under way, and nothing ahead
  std::size_t rung = 0;            // the one that is under way, from 1
  std::size_t rungs = 0;           // that are needed; 0 of a place with one try
  std::size_t tries = 0;           // that take part in it
  // Of those tries in this rung: all, and how many of them are what. The others are not begun, or not finished.
  std::size_t runs = 0, finished = 0, running = 0, diverged = 0, failed = 0;
  std::int64_t steps_ahead = 0;  // environment steps to this rung and those behind it, as far as no run ends early
};

// Place by place as plan_tries() has them. Throws UserError as read_tune_record() and read_run_state() do.
std::vector<PlaceProgress> tune_progress(const std::filesystem::path& tuning, const TuneOptions& options,
                                         std::vector<TunedPlace> places);

}  // namespace engram
