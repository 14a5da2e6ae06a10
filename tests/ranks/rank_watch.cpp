#include "ranks/rank_watch.h"

#include <doctest/doctest.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/in_processes.h"
#include "tests/ranks/in_threads.h"

using namespace engram;
using namespace std::chrono_literals;

namespace {

// What the watch of each of three ranks saw while they worked.
struct Watched {
  bool lost = false, together = false;
  friend bool operator==(const Watched&, const Watched&) = default;
};

std::vector<Watched> watch_three(const std::function<bool(int rank)>& sound,
                                 const std::function<void(int rank)>& work) {
  std::vector<Watched> all(3);
  in_threads(3, [&](const std::shared_ptr<Ranks>& ranks) {
    const int own = ranks->rank();
    std::atomic<bool> lost = false;
    RankWatch watch(
        *ranks, [&, own] { return sound(own); }, [&] { lost = true; });
    work(own);
    const bool together = watch.leave();
    all[static_cast<std::size_t>(own)] = {lost, together};
  });
  return all;
}

bool always(int) { return true; }

}  // namespace

TEST_CASE("ranks that leave their watch together have lost none") {
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 3; ++i)
    CHECK((watch_three(always, [](int rank) { std::this_thread::sleep_for(rank * 300ms); }) ==
           std::vector<Watched>(3, {false, true})));
  CHECK(std::chrono::steady_clock::now() - begin < 12s);
}

TEST_CASE("a rank that leaves its watch before the others is missed by them") {
  CHECK((watch_three(always, [](int rank) { std::this_thread::sleep_for(rank == 1 ? 0s : 8s); }) ==
         std::vector<Watched>{{true, false}, {false, false}, {true, false}}));
}

TEST_CASE("a rank that is not sound is missed by all") {
  CHECK((watch_three([](int rank) { return rank != 2; }, [](int) { std::this_thread::sleep_for(4s); }) ==
         std::vector<Watched>(3, {true, false})));
}

// Several at once: what c10d keeps of the groups of a program is shared by their threads.
TEST_CASE("a rank's watches follow each other") {
  in_threads(4, [](const std::shared_ptr<Ranks>& ranks) {
    for (int i = 0; i < 3; ++i) {
      RankWatch watch(
          *ranks, [] { return true; }, [] {});
      CHECK(watch.leave());
      CHECK(watch.leave());
    }
  });
}

TEST_CASE("a rank that is killed is missed within seconds") {
  const auto told = in_processes(3, "a rank that is killed is missed*", [](const std::shared_ptr<Ranks>& ranks) {
    std::promise<void> lost;
    std::future<void> news = lost.get_future();
    RankWatch watch(
        *ranks, [] { return true; }, [&] { lost.set_value(); });
    if (ranks->rank() == 1) {
      std::this_thread::sleep_for(500ms);
      ::raise(SIGKILL);
    }
    return std::string(news.wait_for(5s) == std::future_status::ready ? "missed" : "not missed");
  });
  CHECK(told[0].value_or("nothing") == "missed");
  CHECK_FALSE(told[1].has_value());
  CHECK(told[2].value_or("nothing") == "missed");
}
