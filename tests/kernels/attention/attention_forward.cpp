#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <vector>

#include "tests/kernels/attention/attention_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

// bfloat16 keeps 8 bits: rounding the output gives 0.0017, turned queries and keys and the weights add about as much.
// float: 24 bits, a few hundred roundings.
double tolerance(Dtype dtype) { return dtype == Dtype::kFloat32 ? 1e-5 : 0.005; }

void check_case(const AttentionCase& c) {
  INFO(c.name());
  AttentionProblem problem = make_attention(c);
  std::int64_t seed_tick[2];
  draw_as_device(problem.input, c, seed_tick);
  const auto expected = attention_reference(problem.input);
  const std::lock_guard lock(gpu_in_use);
  AttentionDevice device(c, problem);
  device.poison();
  device.forward();
  const AttentionResult actual = device.result();
  CHECK(relative_error(actual.output, expected.output_BTHW) <= tolerance(c.dtype));
}

}  // namespace

TEST_CASE("attention equals the formula at every shape") {
  if (skip_without_gpu()) return;
  const auto cases = attention_cases();
  REQUIRE(cases.size() >= 200);
  check_each(cases, check_case);
}

TEST_CASE("attention equals the formula at the edges of its inputs, with dropout and without") {
  if (skip_without_gpu()) return;
  check_each(attention_edge_cases(), check_case);
}

TEST_CASE("attention with scores in the millions picks the largest") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const int window : {64, kFullWindow}) {
      AttentionCase c{{2, 150, 2, 64}, window, dtype};
      c.key_scale = 1e7, c.rotary_width = 0;
      check_case(c);
    }
}

TEST_CASE("NaN in one row of attention reaches no other") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : {Dtype::kFloat32, Dtype::kBfloat16})
    for (const int window : {64, kFullWindow}) {
      AttentionCase c{{3, 130, 2, 56}, window, dtype};
      c.ragged = false;
      AttentionProblem problem = make_attention(c);
      const auto run = [&] { return AttentionDevice(c, problem).forward_and_backward(); };
      const AttentionResult clean = run();
      const std::size_t row = clean.output.size() / 3;
      std::fill_n(problem.input.k_BTHW.begin() + row, row, std::nan(""));
      std::fill_n(problem.input.v_BTHW.begin() + row, row, std::nan(""));
      const AttentionResult poisoned = run();
      for (const auto part :
           {&AttentionResult::output, &AttentionResult::q, &AttentionResult::k, &AttentionResult::v}) {
        const std::vector<double>&before = clean.*part, &after = poisoned.*part;
        CHECK(std::equal(before.begin(), before.begin() + row, after.begin()));
        CHECK(std::isnan(after[row]));
        CHECK(std::equal(before.begin() + 2 * row, before.end(), after.begin() + 2 * row));
      }
    }
}
