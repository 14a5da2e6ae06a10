// Random problems of the sum rule with a decay for each key channel, and how a result is compared with the definition
// in double precision.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fast_weights/vector_decay/reference.h"
#include "kernels/fast_weights/vector_decay/vector_decay.h"
#include "tests/kernels/common/gpu_test.h"

namespace engram::testing {

struct VectorDecayCase {
  int batch, time, heads, key_width, value_width;
  double decay = 0.1;  // the logarithms of decays are from -3 times this to 0

  std::string name() const {
    return "B " + std::to_string(batch) + " T " + std::to_string(time) + " H " + std::to_string(heads) + " K " +
           std::to_string(key_width) + " V " + std::to_string(value_width) + " decays of " + std::to_string(decay);
  }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct VectorDecayProblem {
  explicit VectorDecayProblem(const VectorDecayCase& c)
      : input{c.batch, c.time, c.heads, c.key_width, c.value_width, rounded(0.3, Dtype::kFloat32), {}, {}, {}, {}, {}} {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.key_width + 1000 * c.value_width),
            static_cast<std::uint32_t>(c.time));
    for (int row = 0; row < c.batch; ++row)
      input.length_B.push_back(row == 0 ? c.time : row == c.batch - 1 ? 0 : static_cast<int>(rng.below(c.time + 1)));
    const auto drawn = [&](int width, const auto& number) {
      std::vector<double> x(static_cast<std::size_t>(c.batch) * c.time * c.heads * width);
      for (std::size_t i = 0; i < x.size(); ++i)
        x[i] = is_behind(i, width) ? std::numeric_limits<double>::quiet_NaN() : rounded(number(), Dtype::kFloat32);
      return x;
    };
    const auto gaussian = [&] { return normal(rng); };
    input.query_BTHK = drawn(c.key_width, gaussian);
    input.key_BTHK = drawn(c.key_width, gaussian);
    input.value_BTHV = drawn(c.value_width, gaussian);
    input.log_decay_BTHK = drawn(c.key_width, [&] { return -3 * c.decay * rng.uniform(); });
    output_gradient_BTHV = drawn(c.value_width, gaussian);
  }
  // Whether an element of [B, T, H, width] is behind its row's length.
  bool is_behind(std::size_t i, int width) const {
    const std::size_t step = i / (static_cast<std::size_t>(input.heads) * width);
    return static_cast<int>(step % input.time) >= input.length_B[step / input.time];
  }

  VectorDecayReferenceInput input;
  std::vector<double> output_gradient_BTHV;
};

struct VectorDecayResult {
  std::vector<float> output_BTHV;
  std::vector<float> query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK;  // gradients
};

template <class Run>
void check_vector_decay(const VectorDecayCase& c, const Run& run) {
  CAPTURE(c.name());
  const VectorDecayProblem problem(c);
  const VectorDecayResult result = run(problem);
  const VectorDecayReferenceGradient gradient =
      vector_decay_reference_backward(problem.input, problem.output_gradient_BTHV);
  const auto error = [](const std::vector<float>& actual, const std::vector<double>& expected) {
    REQUIRE(actual.size() == expected.size());
    return relative_error({actual.begin(), actual.end()}, expected);
  };
  // Bounds of vector_decay.h.
  CHECK(error(result.output_BTHV, vector_decay_reference(problem.input)) < 1e-5);
  CHECK(error(result.query_BTHK, gradient.query_BTHK) < 1e-5);
  CHECK(error(result.key_BTHK, gradient.key_BTHK) < 1e-5);
  CHECK(error(result.value_BTHV, gradient.value_BTHV) < 1e-5);
  CHECK(error(result.log_decay_BTHK, gradient.log_decay_BTHK) < 1e-4);
  for (const std::vector<float>* const x : {&result.query_BTHK, &result.key_BTHK, &result.log_decay_BTHK})
    for (std::size_t i = 0; i < x->size(); ++i)
      if (problem.is_behind(i, c.key_width)) REQUIRE((*x)[i] == 0);
  for (const std::vector<float>* const x : {&result.output_BTHV, &result.value_BTHV})
    for (std::size_t i = 0; i < x->size(); ++i)
      if (problem.is_behind(i, c.value_width)) REQUIRE((*x)[i] == 0);
}

inline std::vector<float> single(const std::vector<double>& x) { return {x.begin(), x.end()}; }

// Every width that a number of columns a thread has begins or ends with, and every kind of last segment.
inline std::vector<VectorDecayCase> vector_decay_cases() {
  std::vector<VectorDecayCase> cases;
  for (const int width : {1, 2, 7, 8, 9, 16, 17, 25, 32, 33, 50, 64, 65, 128})
    for (const int time : {1, 7, 8, 9, 22}) {
      cases.push_back({3, time, 2, width, (width + 1) / 2});
      cases.push_back({3, time, 1, (width + 1) / 2, width});
    }
  cases.push_back({2, 118, 2, 16, 32, 0});     // without a decay
  cases.push_back({3, 300, 2, 16, 32, 0.02});  // that keeps for long
  cases.push_back({3, 60, 2, 16, 32, 20});     // and not at all
  return cases;
}

}  // namespace engram::testing
