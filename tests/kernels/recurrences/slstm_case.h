// Random sLSTM problems, and how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
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

  std::string name() const {
    return "B " + std::to_string(batch) + " T " + std::to_string(time) + " H " + std::to_string(heads) + " K " +
           std::to_string(width) + " gates of " + std::to_string(gate);
  }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct SlstmProblem {
  explicit SlstmProblem(const SlstmCase& c)
      : input{c.batch, c.time, c.heads, c.width, {}, {}, {}}, h_gradient_BTHK(count(c)) {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.width), static_cast<std::uint32_t>(c.time));
    const auto draw = [&](double scale) { return rounded(scale * normal(rng), Dtype::kFloat32); };
    for (int row = 0; row < c.batch; ++row)
      input.length_B.push_back(row == 0 ? c.time : row == c.batch - 1 ? 0 : static_cast<int>(rng.below(c.time + 1)));
    for (std::size_t i = 0; i < 4 * count(c); ++i) input.gates_BTHX.push_back(draw(c.gate));
    for (int i = 0; i < 4 * c.heads * c.width * c.width; ++i)
      input.recurrent_HKX.push_back(draw(c.recurrent / std::sqrt(c.width)));
    for (double& x : h_gradient_BTHK) x = draw(1);
    const std::size_t step = static_cast<std::size_t>(c.heads) * c.width;
    for (int row = 0; row < c.batch; ++row)
      for (std::size_t i = (static_cast<std::size_t>(row) * c.time + input.length_B[row]) * step;
           i < (static_cast<std::size_t>(row) + 1) * c.time * step; ++i) {
        h_gradient_BTHK[i] = std::numeric_limits<double>::quiet_NaN();
        for (int gate = 0; gate < 4; ++gate) input.gates_BTHX[4 * i + gate] = h_gradient_BTHK[i];
      }
  }
  static std::size_t count(const SlstmCase& c) {
    return static_cast<std::size_t>(c.batch) * c.time * c.heads * c.width;
  }

  SlstmReferenceInput input;
  std::vector<double> h_gradient_BTHK;
};

struct SlstmResult {
  std::vector<float> h_BTHK, gates_gradient_BTHX;
};

template <class Run>
void check_slstm(const SlstmCase& c, const Run& run) {
  CAPTURE(c.name());
  const SlstmProblem problem(c);
  const SlstmResult result = run(problem);
  const auto doubles = [](const std::vector<float>& x) { return std::vector<double>(x.begin(), x.end()); };
  // Bounds of slstm.h, with what rounding leaves in a test.
  CHECK(relative_error(doubles(result.h_BTHK), slstm_reference(problem.input)) < 1e-5);
  CHECK(relative_error(doubles(result.gates_gradient_BTHX),
                       slstm_reference_backward(problem.input, problem.h_gradient_BTHK)) < 1e-4);
  // Behind the lengths everything is zero.
  for (std::size_t i = 0; i < result.h_BTHK.size(); ++i) {
    if (!std::isnan(problem.h_gradient_BTHK[i])) continue;
    REQUIRE(result.h_BTHK[i] == 0);
    for (int gate = 0; gate < 4; ++gate) REQUIRE(result.gates_gradient_BTHX[4 * i + gate] == 0);
  }
}

}  // namespace engram::testing
