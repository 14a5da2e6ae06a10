// The relu recurrence on a GPU against the definition in double precision.
#include "kernels/recurrences/relu_recurrence/relu_recurrence.h"

#include <doctest/doctest.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tests/kernels/block/block_test.h"
#include "tests/kernels/recurrences/relu_recurrence_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

Numbers numbers(const std::vector<float>& x) { return {x.begin(), x.end()}; }

struct OnGpu {
  DeviceBytes h_BTD, d_weight_D, d_b_BTD, d_h0_BD;

  explicit OnGpu(const ReluRecurrenceCase& in) {
    const auto given = [](const std::vector<float>& x) { return upload(numbers(x), Dtype::kFloat32); };
    const DeviceBytes weight = given(in.weight_D), h0 = given(in.h0_BD), b = given(in.b_BTD), d_h = given(in.d_h_BTD);
    poison(h_BTD, in.b_BTD.size(), Dtype::kFloat32), poison(d_b_BTD, in.b_BTD.size(), Dtype::kFloat32);
    poison(d_weight_D, in.weight_D.size(), Dtype::kFloat32), poison(d_h0_BD, in.h0_BD.size(), Dtype::kFloat32);
    const ReluRecurrence recurrence{in.batch, in.time, in.width, floats(weight), floats(h0)};
    DeviceBytes scratch;
    poison(scratch, relu_recurrence_backward_scratch_bytes(recurrence));
    relu_recurrence_forward(recurrence, floats(b), floats(h_BTD), nullptr);
    relu_recurrence_backward(recurrence, floats(h_BTD), floats(d_h),
                             {floats(d_weight_D), floats(d_b_BTD), floats(d_h0_BD)}, scratch.data(), nullptr);
  }
};

void check(int rows, int steps, int channels) {
  CAPTURE(rows);
  CAPTURE(steps);
  CAPTURE(channels);
  const ReluRecurrenceCase in(rows, steps, channels);
  const OnGpu actual(in);
  const ReluRecurrenceResult expected = relu_recurrence_reference(in);
  const auto error = [](const DeviceBytes& x, const std::vector<double>& of) {
    return relative_error(download(x, Dtype::kFloat32), of);
  };
  const double bound = relu_recurrence_bound(steps);
  CHECK(error(actual.h_BTD, expected.h_BTD) < bound);
  CHECK(error(actual.d_b_BTD, expected.d_b_BTD) < bound);
  CHECK(error(actual.d_h0_BD, expected.d_h0_BD) < bound);
  CHECK(error(actual.d_weight_D, expected.d_weight_D) < 1e-5);  // a float sum over rows and steps
}

}  // namespace

TEST_CASE("the relu recurrence and its gradients equal the definition") {
  if (skip_without_gpu()) return;
  check(1, 1, 1);
  check(3, 17, 5);
  check(2, 600, 64);
  check(70, 53, 100);
  check(33, 130, 256);
}

TEST_CASE("the same relu recurrence gives the same bits 200 times") {
  if (skip_without_gpu()) return;
  const ReluRecurrenceCase in(40, 100, 72);
  const OnGpu first(in);
  for (int i = 0; i < 200; ++i) {
    const OnGpu again(in);
    REQUIRE(bits_of(again.h_BTD, again.d_weight_D, again.d_b_BTD, again.d_h0_BD) ==
            bits_of(first.h_BTD, first.d_weight_D, first.d_b_BTD, first.d_h0_BD));
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: relu recurrence") {
  if (skip_without_gpu()) return;
  check(3, 9, 50);
}

TEST_CASE("a relu recurrence refuses shapes outside the contract") {
  if (skip_without_gpu()) return;
  for (const auto& [rows, steps, channels] : {std::array{0, 1, 1}, {1, 0, 1}, {1, 1, 0}, {1 << 16, 1, 1 << 15}})
    CHECK_THROWS_AS(relu_recurrence_forward({rows, steps, channels, nullptr, nullptr}, nullptr, nullptr, nullptr),
                    std::runtime_error);
}
