// The threads of a block (kernels/common/block_threads.h) on a CPU: between two meetings each does all of its work in
// one go, in an order of neither rising nor falling numbers, so that what lacks a barrier goes wrong. What they share
// begins as NaN. A warp's meeting is one of all.
#pragma once

#include <cstddef>
#include <cstring>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

namespace engram::testing {

template <class Walk, class Shared>
class ThreadsInTurns {
 public:
  template <class Problem>
  ThreadsInTurns(const Problem& problem, unsigned block, unsigned threads) : shared_(std::make_unique<Shared>()) {
    std::memset(static_cast<void*>(shared_.get()), 0xff, sizeof(Shared));
    walks_.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) walks_.emplace_back(problem, block, i);
  }

  const Walk& any() const { return walks_.front(); }
  void each(std::function<void(Walk&, Shared&)> work) { waiting_.push_back(std::move(work)); }
  void meet() {
    for (std::size_t i = 0; i < walks_.size(); ++i)
      for (const auto& work : waiting_) work(walks_[(kStride * i + kFirst) % walks_.size()], *shared_);
    waiting_.clear();
  }
  void meet_warp() { meet(); }

 private:
  static constexpr std::size_t kStride = 37, kFirst = 5;  // odd, and blocks have a power of two threads: each once

  std::unique_ptr<Shared> shared_;
  std::vector<Walk> walks_;
  std::vector<std::function<void(Walk&, Shared&)>> waiting_;
};

// A block of a launch: its loop, from the beginning to the end.
template <class Walk, class Shared, class Problem, class Loop>
void run_block(const Problem& problem, unsigned block, unsigned threads, const Loop& loop) {
  ThreadsInTurns<Walk, Shared> all(problem, block, threads);
  loop(all);
  all.meet();
}

}  // namespace engram::testing
