// Shared by the tests of the probes' tasks: sequences as plain numbers.
#pragma once

#include <cstdint>
#include <vector>

#include "experiments/probe/task.h"

namespace engram {

using Numbers = std::vector<std::int64_t>;

inline Numbers numbers(const torch::Tensor& row) {
  const auto contiguous = row.contiguous();
  return {contiguous.data_ptr<std::int64_t>(), contiguous.data_ptr<std::int64_t>() + contiguous.numel()};
}

struct ProbeSequence {
  Numbers symbols, positions, labels;
  Numbers right;  // empty where the label alone is
};

// The first batch of the split.
inline std::vector<ProbeSequence> sequences(const ProbeTask& task, Split split, std::uint64_t seed, std::int64_t rows) {
  const ProbeBatch batch = task.draw(split, seed, 0, 1, rows);
  std::vector<ProbeSequence> all;
  for (std::int64_t b = 0; b < rows; ++b)
    all.push_back({numbers(batch.symbol_BT[0][b]), numbers(batch.position_BQ[0][b]), numbers(batch.label_BQ[0][b]),
                   batch.right_BQ.defined() ? numbers(batch.right_BQ[0][b]) : Numbers{}});
  return all;
}

}  // namespace engram
