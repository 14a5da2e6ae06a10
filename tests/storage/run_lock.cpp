#include "storage/run/run_lock.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "storage/run/run_directory.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

std::string lock_error(const std::filesystem::path& folder) {
  return message_of<UserError>([&] { RunLock lock(folder); });
}

RunDirectory created_run(const std::filesystem::path& path) {
  return RunDirectory::create(path, {"[run]\n", torch::kCPU, {}});
}

}  // namespace

TEST_CASE("a lock keeps others out while it lives, and names its process") {
  const TemporaryFolder folder;
  {
    const RunLock lock(folder.path());
    CHECK(lock_error(folder.path()) ==
          "run directory '" + folder.path().string() + "' is in use by process " + std::to_string(getpid()));
  }
  CHECK(lock_error(folder.path()) == "nothing was thrown");
  CHECK(mentions(lock_error(folder / "none"), "none/lock' cannot be written: No such file"));
  std::filesystem::remove(folder / "lock");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "lock");
  CHECK(mentions(lock_error(folder.path()), "cannot be written"));
  CHECK_FALSE(std::filesystem::exists(folder / "elsewhere"));
}

TEST_CASE("a piece of work is one process's, whose file goes with the lock") {
  const TemporaryFolder folder;
  const std::filesystem::path file = folder / "work.lock";
  {
    std::optional<WorkLock> first = WorkLock::take(file);
    REQUIRE(first);
    CHECK_FALSE(WorkLock::take(file));
    CHECK(std::filesystem::exists(file));
    const WorkLock moved = std::move(*first);
    first.reset();
    CHECK(std::filesystem::exists(file));
    CHECK_FALSE(WorkLock::take(file));
  }
  CHECK_FALSE(std::filesystem::exists(file));
  write_text(file, "of a process that was killed");
  CHECK(WorkLock::take(file));
  CHECK_FALSE(std::filesystem::exists(file));
  CHECK(mentions(message_of<UserError>([&] { WorkLock::take(folder / "none/work.lock"); }), "cannot be written"));

  // Several at once, each taking the lock where it is free: never two have it.
  std::atomic<int> working = 0, together = 0, taken = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      for (int again = 0; again < 2000; ++again)
        if (const std::optional<WorkLock> lock = WorkLock::take(file)) {
          if (++working > 1) ++together;
          ++taken;
          --working;
        }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(together == 0);
  CHECK(taken > 100);
}

TEST_CASE("who only looks whether a lock is held changes nothing and keeps nobody out") {
  const TemporaryFolder folder;
  CHECK_FALSE(RunLock::held(folder.path()));
  CHECK_FALSE(std::filesystem::exists(folder / "lock"));
  {
    const RunLock lock(folder.path());
    CHECK(RunLock::held(folder.path()));
    CHECK(read_text(folder / "lock") == std::to_string(getpid()) + "\n");
  }
  CHECK_FALSE(RunLock::held(folder.path()));
  std::atomic<bool> done = false;
  std::thread looks([&] {
    while (!done) {
      RunLock::held(folder.path());
      std::this_thread::sleep_for(std::chrono::microseconds(200));
    }
  });
  for (int i = 0; i < 200; ++i) CHECK(lock_error(folder.path()) == "nothing was thrown");
  done = true;
  looks.join();
  std::filesystem::remove(folder / "lock");
  std::filesystem::create_symlink(folder / "elsewhere", folder / "lock");
  CHECK(mentions(message_of<UserError>([&] { RunLock::held(folder.path()); }), "lock' cannot be read"));
}

TEST_CASE("a lock dies with its process") {
  const TemporaryFolder folder;
  int ready[2];
  REQUIRE(pipe(ready) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const RunLock lock(folder.path());
    if (write(ready[1], "x", 1) != 1) _exit(1);
    for (;;) pause();
  }
  char byte;
  REQUIRE(read(ready[0], &byte, 1) == 1);
  CHECK(mentions(lock_error(folder.path()), "is in use by process " + std::to_string(child)));
  kill(child, SIGKILL);
  REQUIRE(waitpid(child, nullptr, 0) == child);
  CHECK(lock_error(folder.path()) == "nothing was thrown");
  close(ready[0]);
  close(ready[1]);
}

TEST_CASE("a run directory that is written to is locked") {
  const TemporaryFolder folder;
  {
    const RunDirectory run = created_run(folder / "run");
    CHECK(mentions(message_of<UserError>([&] { created_run(folder / "run"); }), "is in use by process"));
    CHECK(
        mentions(message_of<UserError>([&] { RunDirectory::open_to_write(folder / "run"); }), "is in use by process"));
    CHECK(RunDirectory::open(folder / "run").path() == run.path());  // reading is free
  }
  // What a killed process has left goes, what a living one writes stays.
  const std::string gone = "999999999";
  write_text(folder / ("run/config.ini.partial" + gone), "");
  write_text(folder / ("run/weights/best.safetensors.partial" + gone), "");
  const auto mine = folder / ("run/x.partial" + std::to_string(getpid()));
  write_text(mine, "");
  const RunDirectory again = RunDirectory::open_to_write(folder / "run");
  CHECK_FALSE(std::filesystem::exists(folder / ("run/config.ini.partial" + gone)));
  CHECK_FALSE(std::filesystem::exists(folder / ("run/weights/best.safetensors.partial" + gone)));
  CHECK(std::filesystem::exists(mine));
  CHECK(mentions(message_of<UserError>([&] { RunDirectory::open_to_write(folder / "run"); }), "is in use by process"));
}

TEST_CASE("a folder that another program is about to fill is left to it") {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder / "run");
  const RunLock other(folder / "run");
  CHECK(mentions(message_of<UserError>([&] { created_run(folder / "run"); }), "is in use by process"));
  CHECK(std::filesystem::exists(folder / "run/lock"));
}
