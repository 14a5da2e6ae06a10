// WorkerPool: threads that live as long as the pool and run one function together, each on its share of the rows.
#pragma once

#include <barrier>
#include <cstdint>
#include <functional>
#include <thread>
#include <vector>

namespace engram {

class WorkerPool {
 public:
  // `num_threads` >= 1 counts the calling thread, which works too: with 1 nothing is started.
  explicit WorkerPool(int num_threads) : num_threads_(num_threads), barrier_(num_threads) {
    for (int worker = 1; worker < num_threads; ++worker) threads_.emplace_back([this, worker] { serve(worker); });
  }
  ~WorkerPool() {
    if (threads_.empty()) return;
    stopping_ = true;
    barrier_.arrive_and_wait();
  }
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  // Splits 0 .. count - 1 into one range of rows for each thread and returns when every thread has run
  // function(begin, end) on its own. The function must not throw.
  void run(int count, const std::function<void(int begin, int end)>& function) {
    if (threads_.empty()) return function(0, count);
    count_ = count;
    function_ = &function;
    barrier_.arrive_and_wait();
    run_share(0);
    barrier_.arrive_and_wait();
  }

 private:
  void run_share(int worker) {
    const auto bound = [this](int share) {
      return static_cast<int>(static_cast<std::int64_t>(count_) * share / num_threads_);
    };
    (*function_)(bound(worker), bound(worker + 1));
  }

  void serve(int worker) {
    for (;;) {
      barrier_.arrive_and_wait();
      if (stopping_) return;
      run_share(worker);
      barrier_.arrive_and_wait();
    }
  }

  const int num_threads_;
  std::barrier<> barrier_;
  bool stopping_ = false;
  int count_ = 0;
  const std::function<void(int, int)>* function_ = nullptr;
  std::vector<std::jthread> threads_;  // last: joined before the rest goes
};

}  // namespace engram
