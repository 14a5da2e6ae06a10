// What the tests of kernels/block and kernels/learner/sac_loss share: gradients found without a formula.
#pragma once

#include <cstddef>
#include <functional>

#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

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
