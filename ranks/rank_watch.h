// RankWatch: notices that another rank is gone while this program waits for something that knows nothing of the others,
// such as a sum on GPUs. A thread exchanges a word with those of the others, about once a second, on connections of its
// own: a rank that ends closes them, and is missed within a second. One that stands still is waited for.
#pragma once

#include <functional>
#include <memory>
#include <thread>

#include "ranks/ranks.h"

namespace engram {

class RankWatch {
 public:
  // Of all ranks together, an exchange. In the thread:
  // `sound`: before each word, whether this rank takes part in it.
  // `lost`: at most once, where a rank has ended, has left before the others did, or was not sound.
  RankWatch(Ranks& ranks, std::function<bool()> sound, std::function<void()> lost);
  ~RankWatch() { leave(); }
  RankWatch(const RankWatch&) = delete;
  RankWatch& operator=(const RankWatch&) = delete;

  // Waits some seconds for the others to leave, too, and ends the watch; whether they have. Where `lost` does not
  // return within some seconds its thread is left alone with what it holds.
  bool leave();

 private:
  struct State;
  static void watch(const std::shared_ptr<State>& state);

  std::shared_ptr<State> state_;
  std::thread thread_;
};

}  // namespace engram
