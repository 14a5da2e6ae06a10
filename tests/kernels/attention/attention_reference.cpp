#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "tests/kernels/attention/attention_case.h"
#include "tests/kernels/common/check_slopes.h"

using namespace engram;
using namespace engram::testing;

TEST_CASE("the reference of attention: numbers by hand") {
  // Two steps, one head of width 2, no positions: scores 1 and 3, weights softmax(1, 3).
  AttentionReferenceInput input{{1, 2, 1, 2}, 1.0, 2, 0, {0, 0, 1, 1}, {1, 0, 1, 2}, {5, 6, 7, 8}, {2}, {}, 0,
                                {},           {},  {}};
  const auto output = attention_reference(input).output_BTHW;
  const double w = 1 / (1 + std::exp(2.0));
  CHECK(output[0] == doctest::Approx(5));
  CHECK(output[2] == doctest::Approx(5 * w + 7 * (1 - w)));
  input.window = 1;
  CHECK(attention_reference(input).output_BTHW[2] == doctest::Approx(7));
  // One pair of channels turns by one radian a step: k_0 . q_1 becomes cos 1 + sin(-1) at a distance of one.
  input.window = 2, input.rotary_width = 2;
  const double score = std::cos(1.0) + std::sin(-1.0), v = 1 / (1 + std::exp(3 - score));
  CHECK(attention_reference(input).output_BTHW[2] == doctest::Approx(5 * v + 7 * (1 - v)));
}

TEST_CASE("the reference's gradient of attention equals finite differences") {
  for (const double dropout : {0.0, 0.3})
    for (const int slots : {0, 4}) {
      AttentionCase c{{3, 9, 2, 6}, 4, Dtype::kFloat32};
      c.dropout = dropout, c.slots = slots, c.rotary_width = 4, c.seed = 5;
      AttentionProblem problem = make_attention(c);
      std::int64_t seed_tick[2];
      draw_as_device(problem.input, c, seed_tick);
      AttentionReferenceInput& in = problem.input;
      const auto gradient = attention_reference_backward(in, problem.d_output_BTHW);
      check_slopes({in.q_BTHW, in.k_BTHW, in.v_BTHW}, {gradient.q_BTHW, gradient.k_BTHW, gradient.v_BTHW},
                   [&] { return inner_product(attention_reference(in).output_BTHW, problem.d_output_BTHW); });
    }
}

TEST_CASE("the reference of attention in chunks: each chunk is a sequence of its own") {
  AttentionCase c{{2, 10, 2, 6}, 4, Dtype::kFloat32};
  c.ragged = false, c.chunked = true;
  const AttentionReferenceInput whole = make_attention(c).input;
  const auto expected = attention_reference(whole);
  AttentionReferenceInput chunk = whole;
  chunk.chunked = false;
  for (int begin = 0; begin < 10; begin += 4) {
    const int steps = std::min(4, 10 - begin), size = steps * 12;
    chunk.shape.time = steps;
    chunk.length_B = {steps, steps};
    for (const auto part :
         {&AttentionReferenceInput::q_BTHW, &AttentionReferenceInput::k_BTHW, &AttentionReferenceInput::v_BTHW})
      chunk.*part = columns(whole.*part, 10 * 12, begin * 12, size);
    const auto actual = attention_reference(chunk);
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < size; ++i)
        CHECK(actual.output_BTHW[row * size + i] == doctest::Approx(expected.output_BTHW[(row * 10 + begin) * 12 + i]));
  }
}

TEST_CASE("the reference of attention: a sequence in pieces equals the whole") {
  AttentionCase c{{2, 12, 2, 6}, 5, Dtype::kFloat32};
  c.ragged = false, c.slots = 5, c.fresh = true;
  const AttentionReferenceInput whole = make_attention(c).input;
  const auto expected = attention_reference(whole);
  AttentionReferenceInput piece = whole;
  piece.shape.time = 4;
  piece.length_B = {4, 4};
  for (int begin = 0; begin < 12; begin += 4) {
    for (const auto part :
         {&AttentionReferenceInput::q_BTHW, &AttentionReferenceInput::k_BTHW, &AttentionReferenceInput::v_BTHW}) {
      piece.*part = columns(whole.*part, 12 * 12, begin * 12, 4 * 12);  // of each row, 12 steps of 12 numbers
    }
    const auto actual = attention_reference(piece);
    for (int row = 0; row < 2; ++row)
      for (int i = 0; i < 4 * 12; ++i)
        CHECK(actual.output_BTHW[row * 48 + i] == doctest::Approx(expected.output_BTHW[(row * 12 + begin) * 12 + i]));
    piece.past_key_BSHW = actual.ring_key_BSHW, piece.past_value_BSHW = actual.ring_value_BSHW;
    for (auto& position : piece.position_B) position += 4;
  }
  CHECK(relative_error(piece.past_key_BSHW, expected.ring_key_BSHW) < 1e-12);
}
