// Gradients of references against the slopes of a loss.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <vector>

namespace engram::testing {

// Checks that slopes[i] holds the derivatives of loss(), which reads the numbers of inputs[i], by central differences:
// exact to about 1e-9 in double with this step.
template <class Loss>
void check_slopes(const std::vector<std::vector<double>*>& inputs,
                  const std::vector<const std::vector<double>*>& slopes, const Loss& loss) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t j = 0; j < inputs[i]->size(); ++j) {
      double& x = (*inputs[i])[j];
      const double kept = x, step = 1e-5;
      x = kept + step;
      const double above = loss();
      x = kept - step;
      const double below = loss();
      x = kept;
      CHECK((*slopes[i])[j] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6));
    }
}

}  // namespace engram::testing
