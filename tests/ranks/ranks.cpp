#include "ranks/ranks.h"

#include <doctest/doctest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/ranks/in_processes.h"
#include "tests/ranks/in_threads.h"

using namespace engram;

TEST_CASE("a program alone exchanges with itself") {
  Ranks ranks;
  CHECK(ranks.alone());
  CHECK(ranks.first());
  CHECK(ranks.all_gather("a") == std::vector<std::string>{"a"});
  CHECK(ranks.gather("b") == std::vector<std::string>{"b"});
  CHECK(ranks.broadcast("c") == "c");
  CHECK(ranks.any(true));
  CHECK_FALSE(ranks.any(false));
  torch::Tensor values = torch::ones({3});
  ranks.add_up(values);
  CHECK(torch::equal(values, torch::ones({3})));
}

TEST_CASE("ranks exchange bytes of any length, in their order") {
  std::mutex mutex;
  std::vector<std::string> wrong;
  const auto check = [&](bool right, const std::string& what) {
    const std::scoped_lock lock(mutex);
    if (!right) wrong.push_back(what);
  };
  for (const int size : {2, 3}) {
    in_threads(size, [&](const std::shared_ptr<Ranks>& own_ranks) {
      Ranks& ranks = *own_ranks;
      const int own = ranks.rank();
      check(ranks.size() == size && ranks.on_this_machine() == size && ranks.place_on_machine() == own, "size");
      // Around the length from which on a second exchange is needed, and of lengths that differ.
      for (const int length : {0, 1, 247, 248, 249, 5000}) {
        const auto text = [&](int rank) {
          return std::string(static_cast<std::size_t>(rank == size - 1 ? length : 0), static_cast<char>('a' + rank)) +
                 std::string(static_cast<std::size_t>(rank), '\0');
        };
        std::vector<std::string> all;
        for (int rank = 0; rank < size; ++rank) all.push_back(text(rank));
        check(ranks.all_gather(text(own)) == all, "all_gather " + std::to_string(length));
        check(ranks.gather(text(own)) == (own == 0 ? all : std::vector<std::string>{}), "gather");
        const std::string firsts(static_cast<std::size_t>(length), 'x');
        check(ranks.broadcast(own == 0 ? firsts : "other") == firsts, "broadcast");
      }
      for (int saying = 0; saying < size; ++saying) check(ranks.any(own == saying), "any");
      check(!ranks.any(false), "none");
    });
  }
  CHECK(wrong == std::vector<std::string>{});
}

TEST_CASE("sums are the same bits in all ranks, and again the next time") {
  constexpr int kRanks = 3;
  const torch::Tensor all = torch::randn({kRanks, 10'001});
  std::vector<torch::Tensor> first(kRanks), again(kRanks);
  for (auto* const sums : {&first, &again})
    in_threads(kRanks, [&](const std::shared_ptr<Ranks>& own_ranks) {
      Ranks& ranks = *own_ranks;
      torch::Tensor own = all[ranks.rank()].clone();
      ranks.add_up(own);
      (*sums)[static_cast<std::size_t>(ranks.rank())] = own;
    });
  CHECK(torch::allclose(first[0], all.to(torch::kFloat64).sum(0).to(torch::kFloat32), 1e-5, 1e-5));
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(torch::equal(first[static_cast<std::size_t>(rank)], first[0]));
    CHECK(torch::equal(again[static_cast<std::size_t>(rank)], first[0]));
  }
}

TEST_CASE("those who stay are told which rank went, and why") {
  std::mutex mutex;
  std::set<std::string> told;
  const auto begin = std::chrono::steady_clock::now();
  in_threads(3, [&](const std::shared_ptr<Ranks>& own_ranks) {
    Ranks& ranks = *own_ranks;
    ranks.any(false);
    if (ranks.rank() == 1) {
      ranks.say_failure("the disk is full");
      return;
    }
    try {
      ranks.any(false);
      ranks.any(false);
    } catch (const RankLost& lost) {
      const std::scoped_lock lock(mutex);
      told.insert(std::to_string(lost.rank()) + ": " + lost.what());
    }
  });
  CHECK(told == std::set<std::string>{"1: rank 1 of 3 failed: the disk is full"});
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(20));
}

// Which of a connection's reader and writer notices first that it is closed is a matter of luck; this is not.
TEST_CASE("a program of several ranks is told of a closed connection by an error and not by a signal") {
  const auto written =
      in_processes(2, "a program of several ranks is told of a closed connection by an error and not by a signal",
                   [](const std::shared_ptr<Ranks>& ranks) {
                     int connection[2];
                     REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, connection) == 0);
                     ::close(connection[1]);
                     const bool refused = ::write(connection[0], "x", 1) == -1 && errno == EPIPE;
                     ranks->any(false);
                     return std::string(refused ? "refused" : "written");
                   });
  for (const std::optional<std::string>& of_rank : written) CHECK(of_rank.value_or("ended by a signal") == "refused");
}

TEST_CASE("a rank that is in the middle of its work is not taken for the lost one") {
  std::mutex mutex;
  std::vector<std::string> told;
  in_threads(3, [&](const std::shared_ptr<Ranks>& own_ranks) {
    Ranks& ranks = *own_ranks;
    ranks.any(false);
    if (ranks.rank() == 1) return;  // without a word
    if (ranks.rank() == 2) std::this_thread::sleep_for(std::chrono::seconds(4));
    try {
      ranks.any(false);
      ranks.any(false);
    } catch (const RankLost& lost) {
      const std::scoped_lock lock(mutex);
      told.push_back(std::string(lost.what()).substr(0, 20));
      CHECK_FALSE(lost.said_why());
    }
  });
  CHECK(told == std::vector<std::string>(2, "rank 1 of 3 is lost:"));
}

TEST_CASE("things are dealt in even blocks") {
  for (const std::int64_t count : {0, 1, 5, 64, 781})
    for (const int size : {1, 2, 3, 7}) {
      std::int64_t next = 0;
      for (int rank = 0; rank < size; ++rank) {
        const Block block = block_of(count, rank, size);
        CHECK(block.first == next);
        CHECK(block.count >= count / size);
        CHECK(block.count <= (count + size - 1) / size);
        next += block.count;
      }
      CHECK(next == count);
    }
}
