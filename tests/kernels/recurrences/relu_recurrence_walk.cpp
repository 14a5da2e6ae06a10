// What a thread of the relu recurrence does, on the CPU: it reads and writes its own channel's steps alone.
#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

#include "kernels/recurrences/relu_recurrence/walk.h"
#include "tests/kernels/common/gpu_test.h"
#include "tests/kernels/recurrences/relu_recurrence_case.h"

using namespace engram;
using namespace engram::testing;
using relu_recurrence::Channel;
using relu_recurrence::kAhead;

namespace {

// All channels, one after the other.
struct Walked {
  std::vector<float> h_BTD, d_b_BTD, d_h0_BD;
  std::vector<double> d_weight_D;
};
Walked walk(const ReluRecurrenceCase& in) {
  Walked out{std::vector<float>(in.b_BTD.size()), std::vector<float>(in.b_BTD.size()),
             std::vector<float>(in.h0_BD.size()), std::vector<double>(in.width)};
  for (int row = 0; row < in.batch; ++row)
    for (int d = 0; d < in.width; ++d) {
      const std::size_t state = std::size_t{1} * row * in.width + d, first = in.at(row, 0, d);
      const Channel channel{in.time, in.width, in.weight_D[d], in.h0_BD[state]};
      relu_recurrence::forward(channel, in.b_BTD.data() + first, out.h_BTD.data() + first);
      const auto gradient = relu_recurrence::backward(channel, out.h_BTD.data() + first, in.d_h_BTD.data() + first,
                                                      out.d_b_BTD.data() + first);
      out.d_weight_D[d] += gradient.weight;
      out.d_h0_BD[state] = gradient.h0;
    }
  return out;
}

}  // namespace

TEST_CASE("a thread's walk along a channel is the recurrence, forward and backward, for every number of steps") {
  std::vector<int> lengths{600};
  for (int steps = 1; steps <= 3 * kAhead + 1; ++steps) lengths.push_back(steps);
  for (const int steps : lengths) {
    CAPTURE(steps);
    const ReluRecurrenceCase in(steps == 600 ? 2 : 3, steps, steps == 600 ? 64 : 5);
    const double bound = relu_recurrence_bound(steps);
    const Walked actual = walk(in);
    const ReluRecurrenceResult expected = relu_recurrence_reference(in);
    CHECK(relative_error(actual.h_BTD, expected.h_BTD) < bound);
    CHECK(relative_error(actual.d_b_BTD, expected.d_b_BTD) < bound);
    CHECK(relative_error(actual.d_h0_BD, expected.d_h0_BD) < bound);
    CHECK(relative_error(actual.d_weight_D, expected.d_weight_D) < 2 * bound);
  }
}

TEST_CASE("what is not a number stays so for the rest of its channel, and in its gradients, and reaches no other") {
  ReluRecurrenceCase in(1, 20, 2);
  for (int t = 0; t < 20; ++t) in.b_BTD[in.at(0, t, 0)] = 1;
  in.weight_D = {0.5f, 0.5f};
  in.b_BTD[in.at(0, 9, 0)] = std::numeric_limits<float>::quiet_NaN();
  const Walked actual = walk(in);
  for (int t = 0; t < 20; ++t) {
    CAPTURE(t);
    CHECK(std::isnan(actual.h_BTD[in.at(0, t, 0)]) == (t >= 9));
    CHECK(!std::isnan(actual.h_BTD[in.at(0, t, 1)]));
  }
  CHECK(std::isnan(actual.d_weight_D[0]));
  CHECK(!std::isnan(actual.d_weight_D[1]));
}
