// A writer is killed at any moment, 1,000 times: what it has acknowledged is there, whole.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <iterator>
#include <random>
#include <string>
#include <thread>

#include "storage/files.h"
#include "storage/tensors/safetensors.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

constexpr std::int64_t kElements = 30'000;  // 240 KB: long enough in writing to be hit

using Save = std::function<void(const std::filesystem::path&, std::int64_t number)>;

void save(const std::filesystem::path& file, std::int64_t number) {
  save_safetensors(file, {{"x", torch::full({kElements}, number, torch::kInt64)}},
                   {{"number", std::to_string(number)}});
}

// The number in the file; -1 if it is not whole. 0: no file yet.
std::int64_t load(const std::filesystem::path& file) {
  if (!std::filesystem::exists(file)) return 0;
  try {
    const SafetensorsFile loaded = load_safetensors(file);
    const std::int64_t number = std::stoll(loaded.metadata.at("number"));
    const bool whole =
        loaded.digest_checked && torch::equal(loaded.tensors.at("x"), torch::full({kElements}, number, torch::kInt64));
    return whole ? number : -1;
  } catch (const UserError&) {
    return -1;
  }
}

// A child that saves numbers from `first` on, as fast as it can, and acknowledges each through the pipe once the save
// has returned; the one before the first when it starts.
pid_t start_writer(const std::filesystem::path& file, std::int64_t first, const Save& save_number, int acknowledge) {
  const pid_t child = fork();
  if (child != 0) return child;
  for (std::int64_t number = first - 1;; ++number) {
    if (number >= first) save_number(file, number);
    if (::write(acknowledge, &number, sizeof(number)) != sizeof(number)) _exit(1);
  }
}

struct Killed {
  std::int64_t last_acknowledged;
  std::int64_t found;  // as load() has it
};

Killed kill_one(const std::filesystem::path& file, std::int64_t first, const Save& save_number,
                std::chrono::microseconds after) {
  int pipe_ends[2];
  REQUIRE(pipe(pipe_ends) == 0);
  const pid_t child = start_writer(file, first, save_number, pipe_ends[1]);
  REQUIRE(child > 0);
  close(pipe_ends[1]);
  Killed killed{};
  REQUIRE(read(pipe_ends[0], &killed.last_acknowledged, sizeof(std::int64_t)) == sizeof(std::int64_t));
  std::this_thread::sleep_for(after);
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  REQUIRE(WIFSIGNALED(status));  // and has not left by itself
  killed.found = load(file);
  for (std::int64_t number; read(pipe_ends[0], &number, sizeof(number)) == sizeof(number);)
    killed.last_acknowledged = number;
  close(pipe_ends[0]);
  return killed;
}

}  // namespace

TEST_CASE("1,000 kills while saving: the file is always whole and never older than acknowledged") {
  const TemporaryFolder folder;
  // Up to 5 ms, and on a slow disk up to twice what a save takes: else hardly one would be finished.
  const auto start = std::chrono::steady_clock::now();
  save(folder / "w", 1);
  const std::chrono::duration<double, std::micro> save_time = std::chrono::steady_clock::now() - start;
  std::mt19937 random(1);
  std::uniform_int_distribution<int> microseconds(0, std::clamp(static_cast<int>(2 * save_time.count()), 5000, 30'000));
  std::int64_t number = 1;
  int kills_in_a_save = 0;
  for (int i = 0; i < 1000; ++i) {
    const Killed killed = kill_one(folder / "w", number + 1, save, std::chrono::microseconds(microseconds(random)));
    REQUIRE(killed.found >= killed.last_acknowledged);
    REQUIRE(killed.found <= killed.last_acknowledged + 1);
    number = killed.found;
    kills_in_a_save += std::distance(std::filesystem::directory_iterator(folder.path()), {}) > 1;
    remove_leftovers(folder.path());
    REQUIRE(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);
  }
  MESSAGE("saves: ", number, ", kills in the middle of one: ", kills_in_a_save);
  CHECK(number > 100);
  CHECK(kills_in_a_save > 100);
}

TEST_CASE("the same kills find a save that renames before it writes") {
  const TemporaryFolder folder;
  save(folder / "whole", 1);
  const std::string text = read_text(folder / "whole");
  const Save careless = [&text](const std::filesystem::path& file, std::int64_t) {
    const std::string beside = file.string() + ".new";
    const int descriptor = open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (rename(beside.c_str(), file.c_str()) != 0) _exit(1);
    for (std::size_t done = 0; done < text.size(); done += 4096)
      if (write(descriptor, text.data() + done, std::min<std::size_t>(4096, text.size() - done)) < 0) _exit(1);
    close(descriptor);
  };
  std::mt19937 random(1);
  std::uniform_int_distribution<int> microseconds(0, 5000);
  int torn = 0, kills = 0;
  for (; kills < 1000 && torn == 0; ++kills)
    torn += kill_one(folder / "w", 1, careless, std::chrono::microseconds(microseconds(random))).found < 0;
  MESSAGE("found after kills: ", kills);
  CHECK(torn == 1);
}
