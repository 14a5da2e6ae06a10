// Gradients of references against the slopes of a loss.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

namespace engram::testing {

using Complex = std::complex<double>;

// The real and imaginary parts of complex numbers, whose gradient's parts are the slopes along each.
inline std::span<double> parts_of(std::vector<Complex>& x) {
  return {reinterpret_cast<double*>(x.data()), 2 * x.size()};
}
inline std::span<const double> parts_of(const std::vector<Complex>& x) {
  return {reinterpret_cast<const double*>(x.data()), 2 * x.size()};
}

// Checks that slopes[i] holds the derivatives of loss(), which reads the numbers of inputs[i], by central differences:
// exact to about 1e-9 in double with this step.
template <class Loss>
void check_slopes(const std::vector<std::span<double>>& inputs, const std::vector<std::span<const double>>& slopes,
                  const Loss& loss) {
  REQUIRE(inputs.size() == slopes.size());
  for (std::size_t i = 0; i < inputs.size(); ++i)
    for (std::size_t j = 0; j < inputs[i].size(); ++j) {
      double& x = inputs[i][j];
      const double kept = x, step = 1e-5;
      x = kept + step;
      const double above = loss();
      x = kept - step;
      const double below = loss();
      x = kept;
      CHECK(slopes[i][j] == doctest::Approx((above - below) / (2 * step)).epsilon(1e-6));
    }
}

// A loss whose gradient with respect to a is b.
inline double inner_product(std::span<const double> a, std::span<const double> b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}
inline double inner_product(const std::vector<Complex>& a, const std::vector<Complex>& b) {
  return inner_product(parts_of(a), parts_of(b));
}

// What is behind a row's length, and must not count, as a number whose slope is 0.
inline void make_finite(std::span<double> x, double filling) {
  for (double& element : x)
    if (std::isnan(element)) element = filling;
}

}  // namespace engram::testing
