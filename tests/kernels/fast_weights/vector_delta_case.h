// Random problems of the delta rule with a decay for each key channel, and how a result is compared with the definition
// in double precision.
#pragma once

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/kernels/fast_weights/vector_decay_case.h"

namespace engram::testing {

// The sum rule's problem with keys of about unit length, and write strengths of 0 to 2, among them 0 and 2 themselves.
struct VectorDeltaProblem : VectorDecayProblem {
  explicit VectorDeltaProblem(const VectorDecayCase& c) : VectorDecayProblem(c) {
    for (double& key : input.key_BTHK) key = rounded(key / std::sqrt(c.key_width), Dtype::kFloat32);
    Rng rng(8, Purpose::kTest, static_cast<std::uint32_t>(c.key_width), static_cast<std::uint32_t>(c.time));
    strength_BTH.resize(static_cast<std::size_t>(c.batch) * c.time * c.heads);
    for (std::size_t i = 0; i < strength_BTH.size(); ++i) {
      const double strength = rounded(std::fmin(2, std::fmax(0, 2.4 * rng.uniform() - 0.2)), Dtype::kFloat32);
      strength_BTH[i] = behind(i, 1) ? kNaN : strength;
    }
  }

  Numbers strength_BTH;
};

struct VectorDeltaResult {
  std::vector<float> output_BTHV, error_BTHV, written_gradient_BTHV;

  std::vector<Bytes> bits() const { return bits_of(output_BTHV, error_BTHV, written_gradient_BTHV); }
};

// What kernels(problem, gradient of the output, result's arrays) computes of it in `Memory`.
template <class Memory, class Kernels>
VectorDeltaResult run_vector_delta(const VectorDeltaProblem& problem, const Kernels& kernels) {
  const VectorDecayReferenceInput& in = problem.input;
  std::vector<float> query = single(in.query_BTHK), key = single(in.key_BTHK), value = single(in.value_BTHV),
                     log_decay = single(in.log_decay_BTHK), strength = single(problem.strength_BTH),
                     d_output = single(problem.output_gradient_BTHV);
  std::vector<std::int64_t> lengths(in.length_B.begin(), in.length_B.end());
  VectorDeltaResult r{unwritten(value.size()), unwritten(value.size()), unwritten(value.size())};
  Memory memory;
  const VectorDelta delta{{in.batch, in.time, in.heads, in.key_width, in.value_width, static_cast<float>(in.scale),
                           memory(query), memory(key), memory(value), memory(log_decay), memory(lengths)},
                          memory(strength)};
  kernels(delta, memory(d_output), memory(r.output_BTHV), memory(r.error_BTHV), memory(r.written_gradient_BTHV));
  memory.fetch();
  return r;
}

template <class Run>
void check_vector_delta(const VectorDecayCase& c, const Run& run) {
  CAPTURE(c.name());
  const VectorDeltaProblem problem(c);
  const VectorDeltaResult result = run(problem);
  const VectorDeltaReference expected = vector_delta_reference(problem.input, problem.strength_BTH);
  // Bounds of vector_decay.h.
  CHECK(relative_error(result.output_BTHV, expected.output_BTHV) < 1e-5);
  CHECK(relative_error(result.error_BTHV, expected.error_BTHV) < 1e-5);
  CHECK(relative_error(
            result.written_gradient_BTHV,
            vector_delta_reference_backward(problem.input, problem.strength_BTH, problem.output_gradient_BTHV)) < 1e-5);
  for (const auto* x : {&result.output_BTHV, &result.error_BTHV, &result.written_gradient_BTHV})
    for (std::size_t i = 0; i < x->size(); ++i)
      if (problem.behind(i, c.value_width)) REQUIRE((*x)[i] == 0);
}

}  // namespace engram::testing
