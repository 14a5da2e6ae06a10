#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
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

TEST_CASE("attention and its gradients equal the formula's in chunks") {
  if (skip_without_gpu()) return;
  check_each(attention_chunk_cases(), check_case);
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
          c.chunked = window == 64 && width == 50;
          c.seed = seed++;
          check_case(c);
        }
}

namespace {

// One step of rows at random positions against the formula over a sequence of one step after a past.
void check_step(const AttentionCase& c) {
  INFO(c.name());
  AttentionProblem problem = make_attention(c);
  AttentionReferenceInput& in = problem.input;
  std::int64_t seed_tick[2];
  draw_as_device(in, c, seed_tick);
  const auto expected = attention_reference(in);
  const std::lock_guard lock(gpu_in_use);
  AttentionDevice device(c, problem);
  device.step();
  const std::int64_t step = static_cast<std::int64_t>(c.shape.heads) * c.shape.width;
  // The output is rounded, and the own key and value where the ring is bfloat16; nothing else.
  const bool exact = c.dtype == Dtype::kFloat32 && c.ring_dtype == Dtype::kFloat32;
  const AttentionResult result = device.result();
  CHECK(relative_error(result.output, expected.output_BTHW) <= (exact ? 2e-6 : 0.004));
  const auto zeros = std::count(result.output.begin(), result.output.end(), 0.0);
  CHECK(result.output_zeros == zeros + std::int64_t{c.shape.batch} * c.shape.heads * c.output_padding);

  for (const auto& [ring, wanted] : {std::pair(device.ring().key_BSHW, &expected.ring_key_BSHW),
                                     std::pair(device.ring().value_BSHW, &expected.ring_value_BSHW)}) {
    Bytes bytes(wanted->size() * dtype_bytes(c.ring_dtype));
    check_cuda(cudaMemcpy(bytes.data(), ring, bytes.size(), cudaMemcpyDeviceToHost), "copy the ring");
    Numbers actual = decode(bytes, c.ring_dtype);
    int written = 0;  // in slots that no step has filled, which stay as they were
    for (std::size_t i = 0; i < actual.size(); ++i)
      if (static_cast<std::int64_t>(i / step % c.slots) > in.position_B[i / step / c.slots]) {
        written += !std::isnan(actual[i]);
        actual[i] = 0;
      }
    CHECK(written == 0);
    // One rounding to bfloat16 is at most 2^-8 of a number, and less than half of that over many.
    const double rounding = actual.size() < 100 ? 0.004 : 0.002;
    CHECK(relative_error(actual, *wanted) <= (c.ring_dtype == Dtype::kFloat32 ? 1e-6 : rounding));
  }
}

std::vector<AttentionCase> step_cases(std::initializer_list<int> rows, std::initializer_list<int> widths,
                                      std::initializer_list<int> slots) {
  std::vector<AttentionCase> cases;
  unsigned seed = 3000;
  for (const Dtype dtype : kDtypes)
    for (const Dtype ring_dtype : kDtypes)
      for (const int n : rows)
        for (const int width : widths)
          for (const int size : slots) {
            AttentionCase c{{n, 1, 1 + static_cast<int>(seed % 3), width}, size, dtype};
            c.ragged = false, c.slots = size, c.ring_dtype = ring_dtype, c.zero_channels = width == 56 ? 6 : 0;
            if (seed % 5 == 0) c.rotary_width = seed % 2 == 0 ? 0 : width / 4 * 2;
            c.gap = seed % 4 == 0 ? 6 : 0;
            c.dropout = seed % 4 == 1 ? 0.3 : 0;
            c.chunked = seed % 3 == 0;
            c.output_padding = seed % 7 < 3 ? (width + 7) / 8 * 8 - width : 0;
            c.seed = seed++;
            cases.push_back(c);
          }
  return cases;
}

}  // namespace

TEST_CASE("a step of attention equals the formula, for every number of rows, width and ring") {
  if (skip_without_gpu()) return;
  check_each(step_cases({1, 2, 37}, {2, 16, 40, 50, 56, 64, 100, 128}, {1, 5, 63, 64, 65, 256, 781}), check_step);
}

// More rows and heads than warps that a GPU holds: each has one warp instead of a block.
TEST_CASE("a step of attention equals the formula for thousands of rows") {
  if (skip_without_gpu()) return;
  auto cases = step_cases({6000}, {2, 32, 50, 64}, {5, 24});
  for (AttentionCase& c : cases) c.shape.heads = 1;
  check_each(cases, check_step);
}

TEST_CASE("small shapes: attention step and ring") {
  if (skip_without_gpu()) return;
  for (const AttentionCase& c : step_cases({3}, {50, 128}, {5, 65})) check_step(c);
}
