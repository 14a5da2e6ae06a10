#include "envs/vec/worker_pool.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

using namespace engram;

TEST_CASE("every row is visited once, whatever the number of threads and rows") {
  for (const int threads : {1, 2, 3, 7}) {
    WorkerPool pool(threads);
    for (const int rows : {0, 1, 2, 5, 100}) {
      std::vector<int> visits(rows);
      for (int round = 0; round < 20; ++round)
        pool.run(rows, [&](int begin, int end) {
          for (int i = begin; i < end; ++i) ++visits[i];
        });
      CHECK(std::ranges::all_of(visits, [](int count) { return count == 20; }));
    }
  }
}

TEST_CASE("a pool that was never used ends") { WorkerPool pool(4); }
