#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <utility>
#include <vector>

#include "tests/kernels/attention/attention_case.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Results {
  AttentionReferenceOutput output;
  AttentionReferenceGradient gradient;
  AttentionResult actual;
};

Results run(const AttentionCase& c) {
  AttentionProblem problem = make_attention(c);
  std::int64_t seed_tick[2];
  draw_as_device(problem.input, c, seed_tick);
  AttentionReferenceOutput output = attention_reference(problem.input);
  AttentionReferenceGradient gradient = attention_reference_backward(problem.input, problem.d_output_BTHW);
  const std::lock_guard lock(gpu_in_use);
  return {std::move(output), std::move(gradient), AttentionDevice(c, problem).forward_and_backward()};
}

// bfloat16 keeps 8 bits: rounding the output gives 0.0017, turned queries and keys and the weights add about as much.
// float: 24 bits, a few hundred roundings.
void check_output(const AttentionCase& c, const Results& r) {
  CHECK(relative_error(r.actual.output, r.output.output_BTHW) <= (c.dtype == Dtype::kFloat32 ? 1e-5 : 0.005));
}

// Of gradients: as of the output, with about twice as many rounded intermediates between input and gradient.
double tolerance(Dtype dtype) { return dtype == Dtype::kFloat32 ? 1e-5 : 0.008; }

// Where every query sees one key only, weights are 1 and the gradients of queries and keys exactly 0: the kernels' is
// the rounding of a difference of two equal numbers the size of d_output . v, in units of scale times k or q.
bool sees_one_key(const AttentionCase& c) { return c.window == 1 || c.shape.time == 1; }

// With two or three keys a draw of scores can leave one weight near 1: then the gradients of queries and keys are small
// differences of d_output . v and d_output . output, whose second is rounded to bfloat16 (2^-9) with the output. The
// error is measured against the size of these terms (1 for the standard normal inputs here) as well.
double cancelled(const AttentionCase& c) { return c.dtype == Dtype::kBfloat16 && c.shape.time <= 3 ? 0.002 : 0; }

void check_case(const AttentionCase& c) {
  INFO(c.name());
  const Results r = run(c);
  check_output(c, r);
  const auto& [output, gradient, actual] = r;
  CHECK(relative_error(actual.v, gradient.v_BTHW) <= tolerance(c.dtype));
  for (const auto& [d, expected] : {std::pair(&actual.q, &gradient.q_BTHW), {&actual.k, &gradient.k_BTHW}})
    if (sees_one_key(c))
      CHECK(root_mean_square(*d) <= 1e-5 * c.value_scale);
    else
      CHECK(relative_error(*d, *expected) <= tolerance(c.dtype) + cancelled(c) / root_mean_square(*expected));
}

}  // namespace

TEST_CASE("attention and its gradients equal the formula's at every shape") {
  if (skip_without_gpu()) return;
  const auto cases = attention_cases();
  REQUIRE(cases.size() >= 200);
  check_each(cases, check_case);
}

TEST_CASE("attention and its gradients equal the formula's at the edges of the inputs, with dropout and without") {
  if (skip_without_gpu()) return;
  check_each(attention_edge_cases(), check_case);
}

TEST_CASE("attention with scores in the millions picks the largest") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const int window : {64, kFullWindow}) {
      AttentionCase c{{2, 150, 2, 64}, window, dtype};
      c.key_scale = 1e7, c.rotary_width = 0;
      INFO(c.name());
      check_output(c, run(c));
    }
}

TEST_CASE("NaN in one row of attention reaches no other") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const int window : {64, kFullWindow}) {
      AttentionCase c{{3, 130, 2, 56}, window, dtype};
      c.ragged = false;
      AttentionProblem problem = make_attention(c);
      const auto run = [&] { return AttentionDevice(c, problem).forward_and_backward(); };
      const AttentionResult clean = run();
      const std::size_t row = clean.output.size() / 3;
      std::fill_n(problem.input.k_BTHW.begin() + row, row, kNaN);
      std::fill_n(problem.input.v_BTHW.begin() + row, row, kNaN);
      const AttentionResult spoilt = run();
      for (const auto part :
           {&AttentionResult::output, &AttentionResult::q, &AttentionResult::k, &AttentionResult::v}) {
        CHECK(equal_but_for(clean.*part, spoilt.*part, row, 1, 2));
        CHECK(std::isnan((spoilt.*part)[row]));
      }
    }
}

// What an error of 2 % in one gradient would look like: the check must see it in each, at the loosest tolerance.
TEST_CASE("an error of 2 % in any gradient of attention is caught") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const int window : {64, kFullWindow}) {
      auto [output, gradient, own] = run({{3, 130, 2, 56}, window, dtype});
      for (auto [actual, expected] :
           {std::pair(&own.q, &gradient.q_BTHW), {&own.k, &gradient.k_BTHW}, {&own.v, &gradient.v_BTHW}}) {
        CHECK(relative_error(*actual, *expected) <= tolerance(dtype));
        for (double& x : *actual) x *= 1.02;
        CHECK(relative_error(*actual, *expected) > tolerance(dtype));
      }
    }
}

TEST_CASE("the same attention gives the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes)
    for (const int window : {64, kFullWindow}) {
      AttentionCase c{{4, 200, 2, 56}, window, dtype};
      c.dropout = window == 64 ? 0 : 0.1;
      AttentionDevice device(c, make_attention(c));
      CHECK(different_runs([&] { return device.forward_and_backward().bytes; }) == 0);
    }
}

// Enough rows that a block of the kernels for short windows walks through several tiles, and the same row alone, whose
// tiles have a block each.
TEST_CASE("a row's attention over a short window has the same bits alone and among others") {
  if (skip_without_gpu()) return;
  for (const int width : {50, 56})
    for (const int time : {300, 512}) {
      AttentionCase c{{64, time, 3, width}, 64};
      AttentionProblem problem = make_attention(c);
      const auto run = [&] { return AttentionDevice(c, problem).forward_and_backward(); };
      const AttentionResult among = run();
      c.shape.batch = 1;
      AttentionReferenceInput& in = problem.input;
      in.shape = c.shape;
      const std::size_t row = in.q_BTHW.size() / 64;
      for (auto* vectors : {&in.q_BTHW, &in.k_BTHW, &in.v_BTHW, &problem.d_output_BTHW}) vectors->resize(row);
      in.length_B.resize(1), in.position_B.resize(1);
      const AttentionResult alone = run();
      for (const auto part : {&AttentionResult::output, &AttentionResult::q, &AttentionResult::k, &AttentionResult::v})
        CHECK(std::equal((alone.*part).begin(), (alone.*part).end(), (among.*part).begin()));
    }
}

TEST_CASE("attention's gradients equal the formula's where a block walks through several tiles") {
  if (skip_without_gpu()) return;
  std::vector<AttentionCase> cases;
  unsigned seed = 2000;
  for (const int width : {16, 50, 56, 64})
    for (const int window : {64, 33, 1})
      for (const int time : {257, 400}) {
        AttentionCase c{{time == 400 ? 27 : 40, time, 3, width}, window};
        c.rotary_width = width == 64 ? 24 : -1;
        c.seed = seed++;
        cases.push_back(c);
      }
  check_each(cases, check_case);
}

// Few and small, so that compute-sanitizer can watch them: test_kernels --test-case="small shapes: attention*"
TEST_CASE("small shapes: attention forward and backward") {
  if (skip_without_gpu()) return;
  unsigned seed = 500;
  for (const Dtype dtype : kDtypes)
    for (const int width : {16, 50, 56, 128})
      for (const int window : {64, kFullWindow})
        for (const int time : {1, 33, 130}) {
          AttentionCase c{{3, time, 2, width}, window, dtype};
          c.gap = width % 4;
          c.dropout = time == 33 ? 0.1 : 0;
          c.seed = seed++;
          check_case(c);
        }
}
