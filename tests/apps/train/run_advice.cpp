#include "apps/train/run_advice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <sstream>
#include <string>

#include "apps/list/small_configs.h"
#include "envs/registry.h"
#include "tests/contains.h"

using namespace engram;
using engram::testing::contains;

namespace {

// A run that has done so many updates in so many seconds and has `left` seconds to go.
TrainStatus status_of(std::int64_t updates, double seconds, std::optional<double> left) {
  TrainStatus status;
  status.updates = updates;
  status.seconds_acting = 0.1 * seconds;
  status.seconds_learning = 0.9 * seconds;
  status.updates_per_second = seconds > 0 ? static_cast<double>(updates) / seconds : 0;
  status.seconds_left = left;
  return status;
}

constexpr double kDay = 24 * 3600;

}  // namespace

TEST_CASE("a long run on a CPU gets an estimate and advice, once, when some updates are timed") {
  std::ostringstream out;
  RunAdvice advice(out, /*live=*/false, torch::kCPU, {});
  advice.report(status_of(0, 1, std::nullopt));
  advice.report(status_of(1, 10, 62 * kDay));
  advice.report(status_of(2, 20, 62 * kDay));
  CHECK(out.str().empty());
  advice.report(status_of(3, 30, 62 * kDay));
  const std::string said = out.str();
  CHECK(contains(said, "At 0.1 updates/s the rest takes about 62d00h.\n"));
  for (const char* part : {"are for a GPU", "configs/small/visual_match.ini"}) CHECK(contains(said, part));
  advice.report(status_of(4, 40, 62 * kDay));
  CHECK(out.str() == said);

  std::istringstream lines(said);
  for (std::string line; std::getline(lines, line);) CHECK(line.size() < 80);
}

TEST_CASE("advice names the small config of the run's own task and what it reaches") {
  for (const std::string& task : task_names()) {
    CAPTURE(task);
    std::ostringstream out;
    Config config;
    config.task = TaskConfig(task);
    RunAdvice advice(out, false, torch::kCPU, config);
    advice.report(status_of(0, 0, std::nullopt));
    advice.report(status_of(10, 40, kDay));
    const SmallConfig* const small = small_config(task);
    REQUIRE(small != nullptr);
    CHECK(small->file == "configs/small/" + task + ".ini");
    std::string words = out.str();
    std::ranges::replace(words, '\n', ' ');
    CHECK(contains(words, small->file + ". " + small->outcome));
  }
  CHECK(small_config("flash_parity") == nullptr);
}

TEST_CASE("a run that went on counts its own updates") {
  std::ostringstream out;
  RunAdvice advice(out, false, torch::kCPU, {});
  advice.report(status_of(1000, 0, std::nullopt));
  advice.report(status_of(1002, 20, 62 * kDay));
  CHECK(out.str().empty());
  advice.report(status_of(1003, 30, 62 * kDay));
  CHECK(contains(out.str(), "62d00h"));
}

TEST_CASE("a short run, and a long one on a GPU, get the estimate alone") {
  std::ostringstream brief, gpu;
  RunAdvice on_cpu(brief, false, torch::kCPU, {}), on_gpu(gpu, false, torch::Device(torch::kCUDA, 0), {});
  for (RunAdvice* advice : {&on_cpu, &on_gpu}) advice->report(status_of(0, 0, std::nullopt));
  on_cpu.report(status_of(250, 5.1, 110));
  on_gpu.report(status_of(250, 5.1, 10 * kDay));
  CHECK(brief.str() == "At 49 updates/s the rest takes about 1m50s.\n");
  CHECK(gpu.str() == "At 49 updates/s the rest takes about 10d00h.\n");
}

TEST_CASE("nothing is said of a few seconds, or where nothing is learnt") {
  std::ostringstream out;
  RunAdvice advice(out, false, torch::kCPU, {});
  advice.report(status_of(0, 0, std::nullopt));
  advice.report(status_of(100, 4.9, 62 * kDay));
  advice.report(status_of(0, 30, std::nullopt));
  CHECK(out.str().empty());
}

TEST_CASE("before the trainer has an estimate the updates still to make give one") {
  Config config;
  RunOptions& run = config.run;
  run.updates_per_step = 0.25;
  for (const double limit : {0.0, 600.0}) {
    run.max_seconds = limit;
    std::ostringstream out;
    RunAdvice advice(out, false, torch::kCPU, config);
    advice.report(status_of(0, 0, std::nullopt));
    TrainStatus status = status_of(10, 40, std::nullopt);  // 4 s an update
    status.total_steps = 400'040;                          // 100,000 updates to go
    status.seconds = 60;
    advice.report(status);
    CHECK(contains(out.str(), limit == 0 ? "takes about 4d15h.\n" : "takes about 9m00s.\n"));
    CHECK(contains(out.str(), "are for a GPU") == (limit == 0));
  }
}

TEST_CASE("on a terminal the live line gives way") {
  std::ostringstream out;
  RunAdvice advice(out, /*live=*/true, torch::kCPU, {});
  advice.report(status_of(0, 0, std::nullopt));
  advice.report(status_of(30, 10, 62 * kDay));
  CHECK(out.str().starts_with("\r\033[K"));
  CHECK(out.str().ends_with("\n"));
}
