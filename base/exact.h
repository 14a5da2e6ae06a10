// Arithmetic in double precision that gives the same bits on the CPU and on the GPU: products and sums that no compiler
// contracts into one operation, and the few functions that rules need, built of them. (C++ says no more of std::sin and
// std::log than that they are near; glibc's and CUDA's differ. Division and square root are rounded correctly by both.)
//
// On the CPU a compiler may contract where the machine has a fused multiply-add: x86-64 without -march has none.
#pragma once

#include <cmath>
#include <cstdint>

#include "base/host_device.h"
#include "base/rng.h"

namespace engram::exact {

HOST_DEVICE inline double sum(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
HOST_DEVICE inline double product(double a, double b) {
#if defined(__CUDA_ARCH__)
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
HOST_DEVICE inline double difference(double a, double b) { return sum(a, -b); }

// high + low, with |low| at most half a unit in the last place of high.
struct Double2 {
  double high, low;
};

// a b without error (Dekker, "A floating-point technique for extending the available precision", 1971), where nothing
// overflows or is subnormal.
HOST_DEVICE inline Double2 two_product(double a, double b) {
  constexpr double kSplit = 134217729;  // 2^27 + 1
  const double scaled_a = product(kSplit, a), scaled_b = product(kSplit, b);
  const double high_a = difference(scaled_a, difference(scaled_a, a)), low_a = difference(a, high_a);
  const double high_b = difference(scaled_b, difference(scaled_b, b)), low_b = difference(b, high_b);
  const double high = product(a, b);
  const double low =
      sum(sum(sum(difference(product(high_a, high_b), high), product(high_a, low_b)), product(low_a, high_b)),
          product(low_a, low_b));
  return {high, low};
}

// c[0] + c[1] x + ... + c[n - 1] x^(n - 1)
template <int n>
HOST_DEVICE inline double polynomial(const double (&c)[n], double x) {
  double value = c[n - 1];
  for (int i = n - 2; i >= 0; --i) value = sum(product(value, x), c[i]);
  return value;
}

struct SineCosine {
  double sine, cosine;
};

// Of x + tail, |x| <= pi / 4 and |tail| at most half a unit in x's last place, by their Taylor series, whose largest
// terms are taken in twice the precision. Where |x| <= 0.21, one in some 50,000 results is not the nearest number;
// elsewhere the error is less than 0.56 units in the last place.
HOST_DEVICE inline SineCosine sine_cosine(double x, double tail = 0) {
  // 1/5! - x^2/7! + ... and 1/4! - x^2/6! + ...
  constexpr double kSine[] = {1.0 / 120,
                              -1.0 / 5040,
                              1.0 / 362880,
                              -1.0 / 39916800,
                              1.0 / 6227020800.0,
                              -1.0 / 1307674368000.0,
                              1.0 / 355687428096000.0};
  constexpr double kCosine[] = {1.0 / 24,          -1.0 / 720,           1.0 / 40320,           -1.0 / 3628800,
                                1.0 / 479001600.0, -1.0 / 87178291200.0, 1.0 / 20922789888000.0};
  constexpr Double2 kSixth = {1.0 / 6, 9.25185853854297e-18};  // 1/6
  const Double2 square = two_product(x, x);
  const double fourth = product(square.high, square.high);

  // x - x^3/6 + x^5 (...)
  const Double2 cube = two_product(square.high, x);
  const double cube_low = sum(cube.low, product(square.low, x));
  const Double2 term = two_product(cube.high, kSixth.high);
  const double term_low = sum(term.low, sum(product(cube.high, kSixth.low), product(cube_low, kSixth.high)));
  const double sine = difference(x, term.high), sine_low = difference(difference(x, sine), term.high);
  const double sine_rest = product(product(fourth, x), polynomial(kSine, square.high));

  // 1 - x^2/2 + x^4 (...)
  const double half = product(0.5, square.high);
  const double cosine = difference(1, half), cosine_low = difference(difference(1, cosine), half);
  const double cosine_rest = product(fourth, polynomial(kCosine, square.high));
  const double sine_tail = product(tail, cosine), cosine_tail = product(tail, sine);
  return {sum(sine, sum(sine_low, sum(difference(sine_rest, term_low), sine_tail))),
          sum(cosine, sum(cosine_low, difference(difference(cosine_rest, product(0.5, square.low)), cosine_tail)))};
}

// Of any |x| <= 10^6: quarter turns are taken off with pi / 2 in three parts (Cody and Waite, "Software manual for the
// elementary functions", 1980). The error is less than 0.56 units in the last place.
HOST_DEVICE inline SineCosine sine_cosine_of_any(double x) {
  constexpr double kQuartersPerRadian = 0.63661977236758134;
  constexpr double kQuarter[] = {1.5707963267948966, 6.123233995736766e-17, -1.4973849048591833e-33};
  const double turns = std::rint(product(x, kQuartersPerRadian));
  const Double2 most = two_product(turns, kQuarter[0]), more = two_product(turns, kQuarter[1]);
  // x - most.high is exact: they are equal within a factor of two, or there is no turn.
  const double above = difference(x, most.high);
  const double below = sum(most.low, more.high);
  const double rest = difference(above, below);
  const double lost = sum(sum(difference(most.low, below), more.high), sum(more.low, product(turns, kQuarter[2])));
  const auto [sine, cosine] = sine_cosine(rest, difference(difference(difference(above, rest), below), lost));
  switch (static_cast<int>(turns) & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// Natural logarithm of 0 < x <= 1, within 4 units in the last place. For numbers that are rarely small: halving by
// halving.
HOST_DEVICE inline double log_of_share(double x) {
  constexpr double kRootOfHalf = 0.70710678118654752, kLog2 = 0.69314718055994531;
  // log(m) = 2 artanh(f), f = (m - 1) / (m + 1): 2 f (1 + f^2/3 + f^4/5 + ...)
  constexpr double kArtanh[] = {2.0,      2.0 / 3,  2.0 / 5,  2.0 / 7,  2.0 / 9, 2.0 / 11,
                                2.0 / 13, 2.0 / 15, 2.0 / 17, 2.0 / 19, 2.0 / 21};
  int halvings = 0;
  for (; x < kRootOfHalf; x = sum(x, x)) ++halvings;
  const double f = difference(x, 1) / sum(x, 1);
  return difference(product(f, polynomial(kArtanh, product(f, f))), product(halvings, kLog2));
}

struct NormalPair {
  double first, second;
};

// Two independent standard normal numbers (Box and Muller 1958) of two draws; none exceeds 6.67.
HOST_DEVICE inline NormalPair normal_pair(Rng& rng) {
  constexpr double kHalfPi = 1.5707963267948966;
  const double share = product(sum(rng.next(), 1), 0x1p-32);  // of (0, 1]
  const double radius = std::sqrt(product(-2, log_of_share(share)));
  // The angle: quarter turns, and the rest, between -1/2 and 1/2 of one.
  const std::uint32_t turn = rng.next();
  const double rest = sum(product(sum(turn & 0x3FFFFFFF, 0.5), 0x1p-30), -0.5);
  const SineCosine angle = sine_cosine(product(rest, kHalfPi));
  const double along = product(radius, angle.cosine), across = product(radius, angle.sine);
  switch (turn >> 30) {
    case 0:
      return {along, across};
    case 1:
      return {-across, along};
    case 2:
      return {-along, -across};
    default:
      return {across, -along};
  }
}

}  // namespace engram::exact
