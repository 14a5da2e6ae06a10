#include <doctest/doctest.h>

#include <chrono>
#include <cstdint>
#include <optional>

#include "apps/compare/estimate.h"

using namespace engram;

namespace {

TrainStatus status_of(std::int64_t steps, double acting, std::int64_t updates, double learning) {
  TrainStatus status;
  status.steps = steps;
  status.updates = updates;
  status.seconds_acting = acting;
  status.seconds_learning = learning;
  return status;
}

}  // namespace

TEST_CASE("paces are known before the updates that the first episodes pay for have ended") {
  PaceWatch watch;
  watch.report(status_of(500, 0, 0, 0));  // at random
  watch.report(status_of(700, 0, 0, 0));
  watch.report(status_of(732, 1, 0, 0));  // the first call
  CHECK(!watch.enough());
  watch.report(status_of(764, 1.25, 0, 0));
  watch.report(status_of(796, 1.5, 0, 0));
  watch.report(status_of(796, 1.75, 1, 0));  // what follows acting is none of it
  watch.report(status_of(796, 1.75, 2, 3));
  CHECK(!watch.enough());
  watch.report(status_of(796, 1.75, 4, 4));
  CHECK(watch.enough());
  CHECK(watch.seconds_per_step() == 0.5 / 64);
  CHECK(watch.seconds_per_update() == 0.5);
}

TEST_CASE("a run that has ended before its pace could be seen took as long as it took") {
  PlannedRun run;
  run.config = Config::from_settings({{"task.name", "tmaze"},
                                      {"task.corridor_length", "3"},
                                      {"memory.name", "gru"},
                                      {"memory.width", "4"},
                                      {"network.hidden_width", "4"},
                                      {"run.steps", "6"},
                                      {"run.random_episodes", "1"},
                                      {"replay.batch_episodes", "1"},
                                      {"evaluation.episodes", "1"}});
  const std::optional<double> seconds = estimate_seconds(run, torch::kCPU, 1, 30);
  REQUIRE(seconds);
  CHECK(*seconds > 0);
  CHECK(*seconds < 60);
}

TEST_CASE("a run that cannot be timed in the time that there is is not, and takes no longer") {
  PlannedRun run;
  run.config = Config::from_settings({{"task.name", "tmaze"},
                                      {"task.corridor_length", "50"},
                                      {"memory.name", "gru"},
                                      {"learner.name", "ppo"},
                                      {"learner.iteration_steps", "1048576"},
                                      {"run.steps", "100M"}});
  const auto begin = std::chrono::steady_clock::now();
  CHECK_FALSE(estimate_seconds(run, torch::kCPU, 1, 0.5));
  CHECK(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < 10);
}
