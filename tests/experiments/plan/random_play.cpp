#include "experiments/plan/random_play.h"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>

using namespace engram;

namespace {

TaskConfig short_tmaze() {
  TaskConfig task("tmaze");
  OptionList options = task.options();
  options.set("task.corridor_length", "1");
  return task;
}

}  // namespace

TEST_CASE("random play reaches what can be worked out by hand") {
  // Two steps: ahead (1 of 4 actions; any other costs 1), then the right turn (1 of 4). Success 1/16, return -3/4 +
  // 1/16.
  const RandomPlay play = play_at_random(short_tmaze(), 20'000);
  CHECK(play.episodes == 20'000);
  CHECK(play.success.low < 1.0 / 16);
  CHECK(play.success.high > 1.0 / 16);
  CHECK(play.success.high - play.success.low < 0.01);
  CHECK(play.mean_return.low < -0.6875);
  CHECK(play.mean_return.high > -0.6875);
  CHECK(play.mean_return.high - play.mean_return.low < 0.03);
}

TEST_CASE("random play is the same for every call") {
  for (const std::string& name : task_names()) {
    const RandomPlay first = play_at_random(TaskConfig(name), 20), second = play_at_random(TaskConfig(name), 20);
    CHECK(first.success.estimate == second.success.estimate);
    CHECK(first.mean_return.estimate == second.mean_return.estimate);
  }
  CHECK_THROWS_AS(play_at_random(short_tmaze(), 0), std::invalid_argument);
}
