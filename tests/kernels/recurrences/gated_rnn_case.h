// Random problems of Elman network, GRU and LSTM, and how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "kernels/recurrences/gated_rnn/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

constexpr GatedCell kGatedCells[] = {GatedCell::kElman, GatedCell::kGru, GatedCell::kLstm};
constexpr const char* kGatedCellNames[] = {"Elman", "GRU", "LSTM"};

struct GatedRnnCase {
  GatedCell cell;
  int batch, time, width;
  double gate = 1.5;     // standard deviation of the gates
  double recurrent = 1;  // and of what a random h adds to them
  int linear = 0;        // channels, of the Elman network

  std::string name() const {
    return joined(kGatedCellNames[static_cast<int>(cell)], " B ", batch, " T ", time, " D ", width, " linear ", linear);
  }
};

// bfloat16 numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct GatedRnnProblem {
  explicit GatedRnnProblem(const GatedRnnCase& c) : input{c.cell, c.batch, c.time, c.width, {}, {}, {}, {}, c.linear} {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.width), static_cast<std::uint32_t>(c.time));
    const auto draw = [&](std::size_t size, double scale) { return normals(rng, size, Dtype::kBfloat16, scale); };
    const std::size_t steps = static_cast<std::size_t>(c.batch) * c.time, gates = input.gates();
    input.length_B = lengths_down_to_none(rng, c.batch, c.time);
    if (c.batch == 1) input.length_B[0] = c.time;
    input.gates_BTX = draw(steps * gates * c.width, c.gate);
    input.recurrent_XD = draw(gates * c.width * c.width, c.recurrent / std::sqrt(c.width));
    if (c.cell == GatedCell::kGru) input.candidate_bias_D = draw(c.width, 1);
    h_gradient_BTD = draw(steps * c.width, 1);
    for (std::size_t step = 0; step < steps; ++step)
      if (is_behind(input.length_B, c.time, step)) {
        std::fill_n(&h_gradient_BTD[step * c.width], c.width, kNaN);
        std::fill_n(&input.gates_BTX[step * gates * c.width], gates * c.width, kNaN);
      }
  }

  GatedRnnReferenceInput input;
  Numbers h_gradient_BTD;
};

struct GatedRnnResult {
  Numbers h_BTD, h_before_BTD, gates_gradient_BTX, candidate_gradient_BTD;

  std::vector<Bytes> bits() const { return bits_of(h_BTD, h_before_BTD, gates_gradient_BTX, candidate_gradient_BTD); }
};

// Bounds: RMS error over RMS.
template <class Run>
void check_gated_rnn(const GatedRnnCase& c, double bound, const Run& run) {
  CAPTURE(c.name());
  const GatedRnnProblem problem(c);
  const GatedRnnResult result = run(problem);
  const Numbers h_BTD = gated_rnn_reference(problem.input);
  const GatedRnnGradient gradient = gated_rnn_reference_backward(problem.input, problem.h_gradient_BTD);
  CHECK(relative_error(result.h_BTD, h_BTD) <= bound);
  CHECK(relative_error(result.gates_gradient_BTX, gradient.gates_BTX) <= 2 * bound);
  CHECK(relative_error(result.candidate_gradient_BTD, gradient.candidate_BTD) <= 2 * bound);
  // Each h_t stands where the step after it reads it; nothing does where there is none. Behind the lengths all is zero.
  for (std::size_t i = 0; i < h_BTD.size(); ++i) {
    const std::size_t step = i / c.width, t = step % c.time;
    const bool behind = is_behind(problem.input.length_B, c.time, step);
    REQUIRE(result.h_before_BTD[i] == (behind || t == 0 ? 0 : result.h_BTD[i - c.width]));
    if (!behind) continue;
    REQUIRE(result.h_BTD[i] == 0);
    if (c.cell == GatedCell::kGru) REQUIRE(result.candidate_gradient_BTD[i] == 0);
  }
  const std::size_t columns = static_cast<std::size_t>(problem.input.gates()) * c.width;
  for (std::size_t i = 0; i < gradient.gates_BTX.size(); ++i)
    if (is_behind(problem.input.length_B, c.time, i / columns)) REQUIRE(result.gates_gradient_BTX[i] == 0);
}

}  // namespace engram::testing
