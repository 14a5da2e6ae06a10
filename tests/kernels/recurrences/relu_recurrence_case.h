// The relu recurrence in double precision, and numbers for it.
#pragma once

#include <cmath>
#include <cstddef>
#include <vector>

#include "base/rng.h"

namespace engram::testing {

struct ReluRecurrenceCase {
  int batch, time, width;
  std::vector<float> weight_D, h0_BD, b_BTD, d_h_BTD;

  // Weights on both sides of 0, and of 1; sums of which about half are below 0.
  ReluRecurrenceCase(int rows, int steps, int channels) : batch(rows), time(steps), width(channels) {
    Rng rng(static_cast<unsigned>(rows), Purpose::kTest, static_cast<unsigned>(steps), static_cast<unsigned>(channels));
    const auto draw = [&](std::size_t count, double scale) {
      std::vector<float> all(count);
      for (float& x : all) x = static_cast<float>(scale * (2 * rng.uniform() - 1));
      return all;
    };
    const std::size_t states = std::size_t{1} * rows * channels;
    weight_D = draw(channels, 1.05), h0_BD = draw(states, 1);
    b_BTD = draw(states * steps, 1), d_h_BTD = draw(states * steps, 1);
  }
  std::size_t at(int row, int t, int d) const { return (std::size_t{1} * row * time + t) * width + d; }
};

struct ReluRecurrenceResult {
  std::vector<double> h_BTD, d_weight_D, d_b_BTD, d_h0_BD;
};

inline ReluRecurrenceResult relu_recurrence_reference(const ReluRecurrenceCase& in) {
  ReluRecurrenceResult out{std::vector<double>(in.b_BTD.size()), std::vector<double>(in.width),
                           std::vector<double>(in.b_BTD.size()), std::vector<double>(in.h0_BD.size())};
  for (int row = 0; row < in.batch; ++row)
    for (int d = 0; d < in.width; ++d) {
      const std::size_t state = std::size_t{1} * row * in.width + d;
      const double u = in.weight_D[d];
      double h = in.h0_BD[state], of_h = 0;
      for (int t = 0; t < in.time; ++t)
        out.h_BTD[in.at(row, t, d)] = h = std::fmax(0, in.b_BTD[in.at(row, t, d)] + u * h);
      for (int t = in.time - 1; t >= 0; --t) {
        const double g = out.h_BTD[in.at(row, t, d)] > 0 ? in.d_h_BTD[in.at(row, t, d)] + of_h : 0;
        out.d_b_BTD[in.at(row, t, d)] = g;
        out.d_weight_D[d] += g * (t > 0 ? out.h_BTD[in.at(row, t - 1, d)] : in.h0_BD[state]);
        of_h = u * g;
      }
      out.d_h0_BD[state] = of_h;
    }
  return out;
}

// What rounding may come to: a channel whose weight is near 1 keeps what each step rounded, 2^-24 of it at most, and as
// these go either way they add up as a random walk does.
inline double relu_recurrence_bound(int steps) { return std::ldexp(1, -24) * (1 + std::sqrt(steps)); }

}  // namespace engram::testing
