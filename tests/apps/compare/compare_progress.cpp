#include <doctest/doctest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <sstream>
#include <string>
#include <vector>

#include "apps/compare/process_launcher.h"
#include "apps/compare/progress.h"
#include "tests/storage/temporary_folder.h"

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
  CompareProgress progress(out, {}, {&finished, &running, &failed, &waiting}, 1);
  progress.count_ended(finished, {.stage = RunStage::kFinished});
  progress.started(failed);
  progress.ended({&failed, RunEnd::kFailed, {FailureKind::kOutOfMemory, "no room"}, 2});
  std::filesystem::remove(running.folder / "metrics.jsonl");
  progress.started(running);  // from nothing
  run_of(folder, 1, 400);
  const auto begin = std::chrono::steady_clock::now() - std::chrono::seconds(40);
  progress.report({{{&running}, true, 0, begin}});
  // 0.1 s a step: 600 of this run and 1000 of the one that waits.
  CHECK(out.str() ==
        "t/b/2 failed: out of memory: no room\n1 of 4 runs finished, 1 running, 1 failed  60%  about 2m40s left\n");
  progress.report({});  // not so soon again
  CHECK(out.str().ends_with("left\n"));
}

TEST_CASE("runs that diverged are counted apart, of this call and of earlier ones, and nothing is left of them") {
  const TemporaryFolder folder;
  const PlannedRun finished = run_of(folder, 0, 1000), before = run_of(folder, 1, 100), now = run_of(folder, 2, 0),
                   failed = run_of(folder, 3, 0);
  const RunFailure divergence{FailureKind::kDiverged, "the loss"};
  std::ostringstream out;
  CompareProgress progress(out, {}, {&finished, &before, &now, &failed}, 1);
  progress.count_ended(finished, {.stage = RunStage::kFinished});
  progress.count_ended(before, {.stage = RunStage::kFailed, .failure = divergence});
  progress.ended({&now, RunEnd::kDiverged, divergence, 2});
  progress.ended({&failed, RunEnd::kFailed, {FailureKind::kOutOfMemory, "no room"}, 2});
  progress.report({});
  CHECK(out.str() ==
        "t/b/2 diverged: the loss\nt/b/3 failed: out of memory: no room\n"
        "1 of 4 runs finished, 0 running, 2 diverged, 1 failed  100%\n");
}

TEST_CASE("on a terminal the line is overwritten, and what is said stands above it") {
  const TemporaryFolder folder;
  const PlannedRun run = run_of(folder, 0, 0);
  std::ostringstream out;
  CompareProgress progress(
      out, [] { return 80; }, {&run}, 1);
  progress.started(run);
  progress.report({});
  CHECK(out.str() == "\r[....................] 0 of 1 run finished, 1 running  0%\033[J\r");
  progress.say("here");
  CHECK(out.str().ends_with("running  0%\033[J\r\r\033[Jhere\n"));
}

TEST_CASE("lines fit any width, with a hundred runs and long names, too") {
  const TemporaryFolder folder;
  std::vector<PlannedRun> runs;
  std::vector<const PlannedRun*> all;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    runs.push_back(run_of(folder, seed, seed < 62 ? 1000 : 0));
    runs.back().task = "a_task_with_quite_a_long_label";
    runs.back().backbone = "a_backbone_with_quite_a_long_label";
  }
  for (const PlannedRun& run : runs) all.push_back(&run);
  for (std::size_t columns = 20; columns <= 200; ++columns) {
    std::ostringstream out;
    CompareProgress progress(
        out, [&] { return columns; }, all, 16);
    for (std::size_t i = 0; i < 62; ++i) progress.count_ended(runs[i], {.stage = RunStage::kFinished});
    progress.started(runs[62]);
    progress.ended({&runs[62], RunEnd::kFailed, {FailureKind::kOutOfMemory, "no room for " + std::string(60, 'x')}, 2});
    std::istringstream stays(out.str());
    for (std::string line; std::getline(stays, line);) CHECK(line.size() < columns);
    out.str("");
    std::filesystem::remove(runs[63].folder / "metrics.jsonl");
    for (std::size_t i = 63; i < 79; ++i) progress.started(runs[i]);
    run_of(folder, 63, 400);
    progress.report({{{&runs[63]}, true, 0, std::chrono::steady_clock::now() - std::chrono::seconds(40)}});
    const std::string line = out.str().substr(1, out.str().find('\033') - 1);
    CHECK(line.size() < columns);
    CHECK(line.find("63%") != std::string::npos);
    const auto contains = [&](const char* part) { return line.find(part) != std::string::npos; };
    CHECK(contains("about 3m") == (columns > 21));
    CHECK(contains("1 failed") == (columns > 31));
    CHECK(contains("62 of 100 runs finished") == (columns > 56));
    CHECK(contains("[#") == (columns > 69));
    CHECK(contains("16 running") == (columns > 81));
  }
}

TEST_CASE("the GPUs to share are those that this program may see") {
  using Names = std::vector<std::string>;
  CHECK(visible_gpus(nullptr, 2) == Names{"0", "1"});
  CHECK(visible_gpus("3,5", 2) == Names{"3", "5"});
  CHECK(visible_gpus("GPU-1f,GPU-2a,7", 2) == Names{"GPU-1f", "GPU-2a"});
  CHECK(visible_gpus("1", 1) == Names{"1"});
}
