#include "apps/compare_progress.h"

#include <doctest/doctest.h>

#include <sstream>

#include "tests/agents/temporary_folder.h"

using namespace engram;

namespace {

PlannedRun run_of(const TemporaryFolder& folder, std::uint64_t seed, std::int64_t steps) {
  PlannedRun run{.task = "t", .backbone = "b", .folder = folder / std::to_string(seed), .config = {}, .budget = {}};
  run.seed = seed;
  run.config.run.steps = 1000;
  std::filesystem::create_directories(run.folder);
  if (steps > 0)
    write_text(run.folder / "metrics.jsonl", "{\"kind\":\"train\",\"environment_steps\":" + std::to_string(steps) +
                                                 ",\"updates\":1,\"episodes\":1,\"skipped_updates\":0}\n");
  return run;
}

}  // namespace

TEST_CASE("the line counts what is finished, runs and has failed, and estimates what is left") {
  const TemporaryFolder folder;
  const PlannedRun finished = run_of(folder, 0, 1000), running = run_of(folder, 1, 400), failed = run_of(folder, 2, 0),
                   waiting = run_of(folder, 3, 0);
  std::ostringstream out;
  CompareProgress progress(out, /*live=*/false, {&finished, &running, &failed, &waiting}, 1);
  progress.count_finished(finished);
  progress.started(failed);
  progress.ended({&failed, JobEnd::kFailed, "no memory", 2});
  std::filesystem::remove(running.folder / "metrics.jsonl");
  progress.started(running);  // from nothing
  run_of(folder, 1, 400);
  const auto begin = JobPool::Clock::now() - std::chrono::seconds(40);
  progress.report({{&running, 1, 0, begin, nullptr}});
  // 0.1 s a step: 600 of this run and 1000 of the one that waits.
  CHECK(out.str() == "t/b/2 failed: no memory\n1 of 4 runs finished, 1 running, 1 failed  60%  about 2m40s left\n");
  progress.report({});  // not so soon again
  CHECK(out.str().ends_with("left\n"));
}

TEST_CASE("on a terminal the line is overwritten, and what is said stands above it") {
  const TemporaryFolder folder;
  const PlannedRun run = run_of(folder, 0, 0);
  std::ostringstream out;
  CompareProgress progress(out, /*live=*/true, {&run}, 1);
  progress.started(run);
  progress.report({});
  CHECK(out.str() == "\r\033[K[....................] 0 of 1 runs finished, 1 running  0%");
  progress.say("here");
  CHECK(out.str().ends_with("running  0%\r\033[Khere\n"));
}

TEST_CASE("the GPUs to share are those that this program may see") {
  using Names = std::vector<std::string>;
  CHECK(visible_gpus(nullptr, 2) == Names{"0", "1"});
  CHECK(visible_gpus("3,5", 2) == Names{"3", "5"});
  CHECK(visible_gpus("GPU-1f,GPU-2a,7", 2) == Names{"GPU-1f", "GPU-2a"});
  CHECK(visible_gpus("1", 1) == Names{"1"});
}
