// What the tests of kernels/block and kernels/learner/sac_loss share: what dropout does to an element, and gradients
// found without a formula.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "base/dropout.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

// What dropout multiplies an element of rows of `width` with (base/dropout.h): element c of a row belongs to group
// row * dropout_row(width) / 8 + c / 8.
inline double dropout_factor(const DropoutKey& dropout, int width, std::int64_t row, std::int64_t column) {
  if (!dropout.drops()) return 1;
  float drawn[kDropoutGroup];
  dropout.draw((row * dropout_row(width) + column) / kDropoutGroup, drawn);
  return drawn[column % kDropoutGroup];
}

// d/dx of sum_j weight_j function(x)_j, by central differences in double: exact to about 1e-9 of the function's size.
inline Numbers numeric_gradient(const std::function<Numbers(const Numbers&)>& function, Numbers x,
                                const Numbers& weight) {
  constexpr double kStep = 1e-5;
  Numbers gradient(x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double before = x[i];
    x[i] = before + kStep;
    const Numbers above = function(x);
    x[i] = before - kStep;
    const Numbers below = function(x);
    x[i] = before;
    for (std::size_t j = 0; j < weight.size(); ++j) gradient[i] += weight[j] * (above[j] - below[j]);
    gradient[i] /= 2 * kStep;
  }
  return gradient;
}

}  // namespace engram::testing
