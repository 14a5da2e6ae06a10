// Random problems of the sum rule with a decay for each key channel, and how a result is compared with the definition
// in double precision.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
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
    return joined("B ", batch, " T ", time, " H ", heads, " K ", key_width, " V ", value_width, " decays of ", decay);
  }
};

// Float numbers: what a kernel reads. NaN behind each row's length; the first row has all steps, the last none.
struct VectorDecayProblem {
  explicit VectorDecayProblem(const VectorDecayCase& c)
      : input{c.batch, c.time, c.heads, c.key_width, c.value_width, rounded(0.3, Dtype::kFloat32), {}, {}, {}, {}, {}} {
    Rng rng(7, Purpose::kTest, static_cast<std::uint32_t>(c.key_width + 1000 * c.value_width),
            static_cast<std::uint32_t>(c.time));
    input.length_B = lengths_down_to_none(rng, c.batch, c.time);
    const auto drawn = [&](int width, const auto& number) {
      Numbers x(static_cast<std::size_t>(c.batch) * c.time * c.heads * width);
      for (std::size_t i = 0; i < x.size(); ++i) x[i] = behind(i, width) ? kNaN : rounded(number(), Dtype::kFloat32);
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
  bool behind(std::size_t i, int width) const {
    return is_behind(input.length_B, input.time, i / (static_cast<std::size_t>(input.heads) * width));
  }

  VectorDecayReferenceInput input;
  Numbers output_gradient_BTHV;
};

struct VectorDecayResult {
  std::vector<float> output_BTHV;
  std::vector<float> query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK;  // gradients

  std::vector<Bytes> bits() const { return bits_of(output_BTHV, query_BTHK, key_BTHK, value_BTHV, log_decay_BTHK); }
};

// What kernels(problem, gradient of the output, output, gradients) computes of it in `Memory`.
template <class Memory, class Kernels>
VectorDecayResult run_vector_decay(const VectorDecayProblem& problem, const Kernels& kernels) {
  const VectorDecayReferenceInput& in = problem.input;
  std::vector<float> query = single(in.query_BTHK), key = single(in.key_BTHK), value = single(in.value_BTHV),
                     log_decay = single(in.log_decay_BTHK), d_output = single(problem.output_gradient_BTHV);
  std::vector<std::int64_t> lengths(in.length_B.begin(), in.length_B.end());
  VectorDecayResult r{unwritten(value.size()), unwritten(key.size()), unwritten(key.size()), unwritten(value.size()),
                      unwritten(key.size())};
  Memory memory;
  const VectorDecay decay{
      in.batch,      in.time,     in.heads,      in.key_width,      in.value_width, static_cast<float>(in.scale),
      memory(query), memory(key), memory(value), memory(log_decay), memory(lengths)};
  kernels(
      decay, memory(d_output), memory(r.output_BTHV),
      VectorDecayGradient{memory(r.query_BTHK), memory(r.key_BTHK), memory(r.value_BTHV), memory(r.log_decay_BTHK)});
  memory.fetch();
  return r;
}

template <class Run>
void check_vector_decay(const VectorDecayCase& c, const Run& run) {
  CAPTURE(c.name());
  const VectorDecayProblem problem(c);
  const VectorDecayResult result = run(problem);
  const VectorDecayReferenceGradient gradient =
      vector_decay_reference_backward(problem.input, problem.output_gradient_BTHV);
  // Bounds of vector_decay.h.
  CHECK(relative_error(result.output_BTHV, vector_decay_reference(problem.input)) < 1e-5);
  CHECK(relative_error(result.query_BTHK, gradient.query_BTHK) < 1e-5);
  CHECK(relative_error(result.key_BTHK, gradient.key_BTHK) < 1e-5);
  CHECK(relative_error(result.value_BTHV, gradient.value_BTHV) < 1e-5);
  CHECK(relative_error(result.log_decay_BTHK, gradient.log_decay_BTHK) < 1e-4);
  const auto check_zeros = [&](const std::vector<float>& x, int width) {
    for (std::size_t i = 0; i < x.size(); ++i)
      if (problem.behind(i, width)) REQUIRE(x[i] == 0);
  };
  for (const auto* x : {&result.query_BTHK, &result.key_BTHK, &result.log_decay_BTHK}) check_zeros(*x, c.key_width);
  for (const auto* x : {&result.output_BTHV, &result.value_BTHV}) check_zeros(*x, c.value_width);
}

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
