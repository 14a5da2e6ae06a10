// Ranks: the programs that do one run together, each with a share of its environments, its replay and its batches. What
// decides how the run goes on is the same in all of them: they exchange what only one of them saw, and each computes
// the rest alike.
//
// They meet through c10d's store and exchange by Gloo, both of LibTorch. Every exchange waits for all ranks, which must
// make the same ones in the same order. One thread of a program at a time; RankWatch is for another one.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ranks/launch.h"

namespace engram {

// Another rank is gone.
class RankLost : public std::runtime_error {
 public:
  RankLost(int rank, bool said_why, const std::string& message)
      : std::runtime_error(message), rank_(rank), said_why_(said_why) {}
  int rank() const { return rank_; }
  // Whether that rank told the others itself.
  bool said_why() const { return said_why_; }

 private:
  int rank_;
  bool said_why_;
};

class Ranks {
 public:
  // A program alone: rank 0 of 1, which exchanges with itself at no cost.
  Ranks();
  // Meets the others. Throws RankLost where they do not all come, UserError where there is no such place to meet. From
  // then on the program ignores SIGPIPE: a write to a rank that is gone is an error, by which it is missed.
  explicit Ranks(const Launch& launch);
  ~Ranks();
  Ranks(const Ranks&) = delete;
  Ranks& operator=(const Ranks&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  bool alone() const { return size_ == 1; }
  bool first() const { return rank_ == 0; }
  // "rank 1 of 2"
  std::string name() const;
  // How many of them are on this machine, and how many of these come before this one.
  int on_this_machine() const { return on_this_machine_; }
  int place_on_machine() const { return place_on_machine_; }

  // Exchanges. All throw RankLost.

  // Every rank's bytes, of any length, in the order of the ranks.
  std::vector<std::string> all_gather(std::string_view mine);
  // The same for rank 0; nothing for the others.
  std::vector<std::string> gather(std::string_view mine);
  // Rank 0's bytes.
  std::string broadcast(std::string_view firsts);
  // Whether one of them says so.
  bool any(bool mine);
  // Adds up what the ranks have, in place; afterwards all have the same bits, which depend on the number of ranks but
  // on no order in time. float32 on the CPU, contiguous.
  void add_up(torch::Tensor& values);

  // Before this rank goes: tells the others why. Never throws.
  void say_failure(const std::string& reason) noexcept;

 private:
  friend class RankWatch;
  class Connection;
  std::vector<std::string> exchange(std::string_view mine, bool for_first_alone);

  int rank_ = 0, size_ = 1, on_this_machine_ = 1, place_on_machine_ = 0;
  std::unique_ptr<Connection> connection_;  // none of a program alone
};

// A rank's part of `count` things that are dealt in blocks, as even as they can be: from `first` on.
struct Block {
  std::int64_t first = 0, count = 0;

  friend bool operator==(const Block&, const Block&) = default;
};
Block block_of(std::int64_t count, int rank, int size);

}  // namespace engram
