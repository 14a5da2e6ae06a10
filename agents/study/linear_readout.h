// How well a class can be read from features by a linear map: a probe of what a memory holds (Alain and Bengio 2016).
//
// Ridge regression (Hoerl and Kennard 1970) from standardised features to one-hot classes, in closed form and float64
// on the CPU; its strength is the one of a fixed grid with the least squared leave-one-out error of the examples that
// it learns from (Allen 1974). The class read is the largest of the outputs.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <vector>

namespace engram {

struct Readout {
  std::int64_t correct = 0, count = 0;  // of all examples, each read by a map that has not learnt from it
  std::int64_t most_common = 0;         // examples of the most common class: what one reads who sees no features
};

// Examples at even places are read by a map that has learnt from those at odd places, and the other way round.
// features [N, D], any floating dtype, finite; class_N: N >= 2 numbers, 0 or more. Throws std::invalid_argument
// otherwise.
Readout read_out_linearly(const torch::Tensor& features_ND, const std::vector<std::int64_t>& class_N);

}  // namespace engram
