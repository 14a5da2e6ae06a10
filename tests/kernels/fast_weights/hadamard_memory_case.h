// Random problems of Stable Hadamard Memory, and how a result is compared with the definition in double precision.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fast_weights/hadamard_memory/hadamard_memory.h"
#include "kernels/fast_weights/hadamard_memory/reference.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct HadamardMemoryCase {
  int batch, time, width;
  bool reads_last = true;    // the loss is one of the last M as well
  double calibration = 0.6;  // standard deviation of theta c
  bool is_bounded = false;   // by a limit that many elements reach

  std::string name() const {
    return "B " + std::to_string(batch) + " T " + std::to_string(time) + " H " + std::to_string(width) +
           (reads_last ? "" : " of h alone") + " calibrations of " + std::to_string(calibration) +
           (is_bounded ? " bounded" : "");
  }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct HadamardMemoryProblem {
  explicit HadamardMemoryProblem(const HadamardMemoryCase& c)
      : input{c.batch, c.time, c.width, {}, {}, {}, {}, {}, {}, {}, std::numeric_limits<double>::infinity()},
        reads_last(c.reads_last) {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.width), static_cast<std::uint32_t>(c.time));
    const std::size_t width = c.width, vectors = width * c.batch * c.time, matrices = width * width * c.batch;
    const auto draw = [&](std::size_t size, double scale) {
      std::vector<double> x(size);
      for (double& element : x) element = rounded(scale * normal(rng), Dtype::kFloat32);
      return x;
    };
    for (int row = 0; row < c.batch; ++row)
      input.length_B.push_back(row == 0 ? c.time : row == c.batch - 1 ? 0 : static_cast<int>(rng.below(c.time + 1)));
    input.theta_BTH = draw(vectors, std::sqrt(c.calibration));
    input.c_BTH = draw(vectors, std::sqrt(c.calibration));
    input.value_BTH = draw(vectors, 1);
    input.key_BTH = draw(vectors, 1);
    input.query_BTH = draw(vectors, 1);
    input.first_BHH = draw(matrices, 1);
    output_gradient = {draw(vectors, 1), draw(matrices, reads_last ? 1 : 0)};
    for (std::vector<double>* const x_BTH :
         {&input.theta_BTH, &input.c_BTH, &input.value_BTH, &input.key_BTH, &input.query_BTH, &output_gradient.h_BTH})
      for (std::size_t i = 0; i < vectors; ++i)
        if (is_behind(i)) (*x_BTH)[i] = std::numeric_limits<double>::quiet_NaN();
    if (c.is_bounded) choose_limit();
  }
  // Whether an element of [B, T, H] is behind its row's length.
  bool is_behind(std::size_t i) const {
    const std::size_t step = i / input.width;
    return static_cast<int>(step % input.time) >= input.length_B[step / input.time];
  }

  HadamardMemoryReferenceInput input;
  HadamardMemoryReferenceOutput output_gradient;
  bool reads_last;

 private:
  // One that no element comes so near to that a float's rounding decides on which side of it the element is.
  void choose_limit() {
    for (input.limit = 1.5; hadamard_memory_reference(input).distance_to_limit < 1e-5; input.limit += 0x1p-10)
      REQUIRE(input.limit < 2);
  }
};

struct HadamardMemoryResult {
  std::vector<float> h_BTH, last_BHH;
  std::vector<float> theta_BTH, c_BTH, value_BTH, key_BTH, query_BTH, first_BHH;  // gradients
};

template <class Run>
void check_hadamard_memory(const HadamardMemoryCase& c, const Run& run) {
  CAPTURE(c.name());
  const HadamardMemoryProblem problem(c);
  const HadamardMemoryResult result = run(problem);
  const HadamardMemoryReferenceOutput output = hadamard_memory_reference(problem.input);
  const HadamardMemoryReferenceGradient gradient =
      hadamard_memory_reference_backward(problem.input, problem.output_gradient);
  const auto error = [](const std::vector<float>& actual, const std::vector<double>& expected) {
    REQUIRE(actual.size() == expected.size());
    return relative_error({actual.begin(), actual.end()}, expected);
  };
  // Bounds of hadamard_memory.h.
  const double bound = hadamard_memory_output_bound(c.time);
  CHECK(error(result.h_BTH, output.h_BTH) < bound);
  CHECK(error(result.last_BHH, output.last_BHH) < bound);
  CHECK(error(result.theta_BTH, gradient.theta_BTH) < 1e-4);
  CHECK(error(result.c_BTH, gradient.c_BTH) < 1e-4);
  CHECK(error(result.value_BTH, gradient.value_BTH) < 1e-4);
  CHECK(error(result.key_BTH, gradient.key_BTH) < 1e-4);
  CHECK(error(result.query_BTH, gradient.query_BTH) < 1e-4);
  CHECK(error(result.first_BHH, gradient.first_BHH) < 1e-4);
  // Behind the lengths everything is zero, and an empty row's M stays what it is, bit for bit.
  for (const std::vector<float>* const x_BTH :
       {&result.h_BTH, &result.theta_BTH, &result.c_BTH, &result.value_BTH, &result.key_BTH, &result.query_BTH})
    for (std::size_t i = 0; i < x_BTH->size(); ++i)
      if (problem.is_behind(i)) REQUIRE((*x_BTH)[i] == 0);
  const auto matrix = static_cast<std::ptrdiff_t>(c.width) * c.width;
  for (int row = 0; row < c.batch; ++row)
    if (problem.input.length_B[row] == 0)
      CHECK(std::equal(result.last_BHH.begin() + row * matrix, result.last_BHH.begin() + (row + 1) * matrix,
                       problem.input.first_BHH.begin() + row * matrix));
}

inline std::vector<float> floats(const std::vector<double>& x) { return {x.begin(), x.end()}; }
// What is to be written.
inline std::vector<float> poisoned(std::size_t size) {
  return std::vector<float>(size, std::numeric_limits<float>::quiet_NaN());
}

// Every width that a number of columns a thread has begins or ends with, and every kind of last segment.
inline std::vector<HadamardMemoryCase> hadamard_memory_cases() {
  std::vector<HadamardMemoryCase> cases;
  for (const int width : {1, 2, 7, 8, 9, 16, 17, 32, 33, 47, 48, 49, 64, 65, 100, 128})
    for (const int time : {1, 7, 8, 9, 22}) cases.push_back({3, time, width, time % 2 != 0});
  cases.push_back({2, 118, 48, false, 2});
  cases.push_back({3, 160, 48, true, 0.3});
  for (const int width : {2, 31, 47, 60, 65}) cases.push_back({3, 21, width, width % 2 != 0, 0.6, /*is_bounded=*/true});
  return cases;
}

}  // namespace engram::testing
