// Random sLSTM problems, and how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/recurrences/slstm/reference.h"
#include "kernels/recurrences/slstm/slstm.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct SlstmCase {
  int batch, time, heads, width;
  double gate = 2;       // standard deviation of the gates
  double recurrent = 1;  // and of what a random h adds to them

  std::string name() const { return joined("B ", batch, " T ", time, " H ", heads, " K ", width, " gates of ", gate); }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct SlstmProblem {
  explicit SlstmProblem(const SlstmCase& c) : input{c.batch, c.time, c.heads, c.width, {}, {}, {}} {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.width), static_cast<std::uint32_t>(c.time));
    const auto draw = [&](std::size_t size, double scale) { return normals(rng, size, Dtype::kFloat32, scale); };
    input.length_B = lengths_down_to_none(rng, c.batch, c.time);
    input.gates_BTHX = draw(4 * count(c), c.gate);
    input.recurrent_HKX = draw(std::size_t{4} * c.heads * c.width * c.width, c.recurrent / std::sqrt(c.width));
    h_gradient_BTHK = draw(count(c), 1);
    for (std::size_t i = 0; i < count(c); ++i)
      if (is_behind(input.length_B, c.time, i / (static_cast<std::size_t>(c.heads) * c.width)))
        h_gradient_BTHK[i] = kNaN, std::fill_n(&input.gates_BTHX[4 * i], 4, kNaN);
  }
  static std::size_t count(const SlstmCase& c) {
    return static_cast<std::size_t>(c.batch) * c.time * c.heads * c.width;
  }

  SlstmReferenceInput input;
  Numbers h_gradient_BTHK;
};

struct SlstmResult {
  std::vector<float> h_BTHK, gates_gradient_BTHX;

  std::vector<Bytes> bits() const { return bits_of(h_BTHK, gates_gradient_BTHX); }
};

template <class Run>
void check_slstm(const SlstmCase& c, const Run& run) {
  CAPTURE(c.name());
  const SlstmProblem problem(c);
  const SlstmResult result = run(problem);
  // Bounds of slstm.h, with what rounding leaves in a test.
  CHECK(relative_error(result.h_BTHK, slstm_reference(problem.input)) < 1e-5);
  CHECK(relative_error(result.gates_gradient_BTHX, slstm_reference_backward(problem.input, problem.h_gradient_BTHK)) <
        1e-4);
  // Behind the lengths everything is zero.
  for (std::size_t i = 0; i < result.h_BTHK.size(); ++i) {
    if (!std::isnan(problem.h_gradient_BTHK[i])) continue;
    REQUIRE(result.h_BTHK[i] == 0);
    for (int gate = 0; gate < 4; ++gate) REQUIRE(result.gates_gradient_BTHX[4 * i + gate] == 0);
  }
}

}  // namespace engram::testing
