// What tests of games read in observations, and a game played without a vector of environments.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "envs/task.h"

namespace engram::testing {

using Values = std::vector<float>;

// The place of the only 1 among `width` values from `first` on.
inline int shown(const Values& values, int first, int width) {
  int found = -1;
  for (int i = 0; i < width; ++i) {
    REQUIRE((values[static_cast<std::size_t>(first + i)] == 0 || values[static_cast<std::size_t>(first + i)] == 1));
    if (values[static_cast<std::size_t>(first + i)] == 1) REQUIRE(std::exchange(found, i) == -1);
  }
  REQUIRE(found >= 0);
  return found;
}

// A state of one's own, stepped by the task's rules.
template <class Task>
struct Played {
  typename Task::Params params;
  typename Task::State state;
  Rng rng = Rng(1, Purpose::kTest, 0, 0);

  Outcome step(int action) { return Task::step(params, state, action, rng); }
  Values seen() const {
    Values values(static_cast<std::size_t>(Task::observation_shape(params)[0]));
    Task::observe(params, state, values.data());
    return values;
  }
};

}  // namespace engram::testing
