// --shard I/N: the I-th of N parts of some work, I from 1 to N, for N machines or the array of a cluster.
#pragma once

#include <cstddef>
#include <string>

namespace engram {

struct Shard {
  std::size_t index = 0, count = 1;  // index from 0
};

// Throws UserError for anything but I/N with I from 1 to N.
Shard parse_shard(const std::string& text);

}  // namespace engram
