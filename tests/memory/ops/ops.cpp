// The operations against their definitions, written as plain loops in double precision.
#include "memory/ops/ops.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "tests/memory/ops/delta_rule.h"
#include "tests/memory/support.h"

using namespace engram;
using torch::Tensor;

namespace {

// Positions 0 and more, and a ring that holds the `window` last of `history` steps.
KeyValueRing make_ring(const Tensor& key_BUHK, const Tensor& value_BUHV, const Tensor& position_B,
                       std::int64_t window) {
  KeyValueRing ring{torch::zeros({key_BUHK.size(0), window, key_BUHK.size(2), key_BUHK.size(3)}, key_BUHK.options()),
                    torch::zeros({key_BUHK.size(0), window, key_BUHK.size(2), value_BUHV.size(3)}, key_BUHK.options())};
  for (std::int64_t b = 0; b < position_B.size(0); ++b)
    for (std::int64_t p = 0; p < position_B[b].item<std::int64_t>(); ++p) {
      ring.key_BSHK[b][p % window].copy_(key_BUHK[b][p]);
      ring.value_BSHV[b][p % window].copy_(value_BUHV[b][p]);
    }
  return ring;
}

// Softmax over all steps of the whole sequence, those outside the window masked.
Tensor masked_softmax(const Tensor& query_THK, const Tensor& key_THK, const Tensor& value_THV, std::int64_t window) {
  const std::int64_t steps = query_THK.size(0);
  const Tensor scores_HTT = torch::einsum("thk,uhk->htu", {query_THK, key_THK}) / std::sqrt(query_THK.size(2));
  const Tensor distance_TT = torch::arange(steps).unsqueeze(1) - torch::arange(steps);
  const Tensor hidden_TT = (distance_TT < 0) | (distance_TT >= window);
  return torch::einsum("htu,uhv->thv", {scores_HTT.masked_fill(hidden_TT, -INFINITY).softmax(-1), value_THV});
}

}  // namespace

TEST_CASE("the chunked delta rule equals the plain recurrence, at ragged lengths and from any state") {
  torch::manual_seed(1);
  // Around the chunk of 64 and over several; key and value widths differ and are no powers of two.
  for (const std::int64_t steps : {1, 2, 63, 64, 65, 150}) {
    CAPTURE(steps);
    const std::int64_t batch = 3, heads = 2, key_width = 5, value_width = 7;
    const Tensor query = random_doubles({batch, steps, heads, key_width});
    // Repeated keys and write strengths of 2 are the hardest case of the triangular system.
    Tensor key = l2_normalize(random_doubles({batch, steps, heads, key_width}));
    key[1] = key[1][0].clone();
    const Tensor value = random_doubles({batch, steps, heads, value_width});
    const Tensor beta = 2 * torch::sigmoid(2 * random_doubles({batch, steps, heads}));
    const Tensor state = random_doubles({batch, heads, key_width, value_width});
    const Tensor lengths_B = lengths({steps, steps, steps / 2});
    const FastWeightResult out = delta_rule(query, key, value, beta, state, lengths_B);

    Tensor stepped = state.clone();
    for (std::int64_t b = 0; b < batch; ++b)
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<std::vector<double>> fast(key_width, std::vector<double>(value_width));
        for (std::int64_t k = 0; k < key_width; ++k)
          for (std::int64_t v = 0; v < value_width; ++v) fast[k][v] = state[b][h][k][v].item<double>();
        for (std::int64_t t = 0; t < lengths_B[b].item<std::int64_t>(); ++t) {
          const auto q = query.accessor<double, 4>()[b][t][h], k = key.accessor<double, 4>()[b][t][h];
          for (std::int64_t j = 0; j < value_width; ++j) {
            double error = value.accessor<double, 4>()[b][t][h][j];
            for (std::int64_t i = 0; i < key_width; ++i) error -= fast[i][j] * k[i];
            double output = 0;
            for (std::int64_t i = 0; i < key_width; ++i) {
              fast[i][j] += beta.accessor<double, 3>()[b][t][h] * error * k[i];
              output += fast[i][j] * q[i] / std::sqrt(static_cast<double>(key_width));
            }
            REQUIRE(std::abs(output - out.output_BTHV[b][t][h][j].item<double>()) < 1e-11);
          }
        }
        for (std::int64_t k = 0; k < key_width; ++k)
          for (std::int64_t v = 0; v < value_width; ++v)
            REQUIRE(std::abs(fast[k][v] - out.state.weights_BHKV[b][h][k][v].item<double>()) < 1e-11);
      }

    for (std::int64_t t = 0; t < steps; ++t) {
      const Tensor output_BHV =
          delta_rule_step(query.select(1, t), key.select(1, t), value.select(1, t), beta.select(1, t), stepped);
      CHECK((output_BHV - out.output_BTHV.select(1, t)).narrow(0, 0, 2).abs().max().item<double>() < 1e-11);
    }
    CHECK((stepped - out.state.weights_BHKV).narrow(0, 0, 2).abs().max().item<double>() < 1e-11);
  }
}

TEST_CASE("the delta rule in float32 keeps its precision where the triangular system is hardest") {
  torch::manual_seed(2);
  const Tensor key =
      l2_normalize(random_doubles({1, 1, 1, 50})).expand({1, 128, 1, 50}) + 1e-3 * random_doubles({1, 128, 1, 50});
  const Tensor query = random_doubles({1, 128, 1, 50}), value = random_doubles({1, 128, 1, 50}),
               beta = torch::full({1, 128, 1}, 2.0, torch::kFloat64);
  const Tensor state = random_doubles({1, 1, 50, 50});
  const FastWeightResult exact = delta_rule(query, key, value, beta, state, lengths({128}));
  const auto f = torch::kFloat32;
  const FastWeightResult out = delta_rule(query.to(f), key.to(f), value.to(f), beta.to(f), state.to(f), lengths({128}));
  // 128 reflections, each rounding at 6e-8.
  CHECK(relative_error(out.output_BTHV, exact.output_BTHV) < 1e-4);
  CHECK(relative_error(out.state.weights_BHKV, exact.state.weights_BHKV) < 1e-4);
}

TEST_CASE("half precision is solved in float32 and returned in half precision") {
  torch::manual_seed(3);
  const Tensor query = random_doubles({2, 70, 1, 6}), key = l2_normalize(random_doubles({2, 70, 1, 6})),
               value = random_doubles({2, 70, 1, 6});
  const Tensor beta = torch::sigmoid(random_doubles({2, 70, 1})), state = random_doubles({2, 1, 6, 6});
  const auto b = torch::kBFloat16;
  const auto rounded = [&](const Tensor& x) { return x.to(b).to(torch::kFloat64); };
  const FastWeightResult out =
      delta_rule(query.to(b), key.to(b), value.to(b), beta.to(b), state.to(b), lengths({70, 9}));
  const FastWeightResult exact =
      delta_rule(rounded(query), rounded(key), rounded(value), rounded(beta), rounded(state), lengths({70, 9}));
  CHECK((out.output_BTHV.scalar_type() == b));
  CHECK((out.state.weights_BHKV.scalar_type() == b));
  // One rounding of the result to 8 bits: 2^-9.
  CHECK(relative_error(out.state.weights_BHKV.to(torch::kFloat64), exact.state.weights_BHKV) < 0x1p-8);
}

TEST_CASE("window attention equals the masked softmax over the whole sequence, from any position") {
  torch::manual_seed(4);
  const std::int64_t batch = 3, heads = 2, key_width = 6, value_width = 6;
  for (const std::int64_t window : {1, 3, 64, 80, 200})
    for (const std::int64_t steps : {1, 2, 3, 70, 170})
      for (const bool fresh : {true, false}) {
        CAPTURE(window);
        CAPTURE(steps);
        CAPTURE(fresh);
        const Tensor position_B = fresh ? lengths({0, 0, 0}) : lengths({5, 0, 90});
        const Tensor lengths_B = lengths({steps, steps, steps / 2});
        const std::int64_t history = 90, all = history + steps;
        const Tensor query = random_doubles({batch, all, heads, key_width}),
                     key = random_doubles({batch, all, heads, key_width});
        const Tensor value = random_doubles({batch, all, heads, value_width});
        KeyValueRing ring = make_ring(key, value, position_B, window);
        const auto recent = [&](const Tensor& x) {  // [B, T, ...], each row from its position on
          std::vector<Tensor> rows;
          for (std::int64_t b = 0; b < batch; ++b)
            rows.push_back(x[b].narrow(0, position_B[b].item<std::int64_t>(), steps));
          return torch::stack(rows);
        };
        const WindowPlan plan(window, steps, fresh ? 0 : 90, position_B, lengths_B, torch::kFloat64);
        const WindowPlan::Output out = plan.attend(recent(query), recent(key), recent(value), ring, 0);
        if (fresh) {
          const WindowPlan not_kept(window, steps, 0, position_B, /*lengths_B=*/{}, torch::kFloat64);
          const WindowPlan::Output alone =
              not_kept.attend(recent(query), recent(key), recent(value), /*ring=*/{}, nullptr);
          CHECK(torch::equal(alone.output_BTHV, out.output_BTHV));
          CHECK_FALSE(alone.ring.key_BSHK.defined());
        }
        std::vector<Tensor> expected;
        for (std::int64_t b = 0; b < batch; ++b) {
          const std::int64_t position = position_B[b].item<std::int64_t>(), length = lengths_B[b].item<std::int64_t>();
          expected.push_back(masked_softmax(query[b].narrow(0, 0, position + steps),
                                            key[b].narrow(0, 0, position + steps),
                                            value[b].narrow(0, 0, position + steps), window)
                                 .narrow(0, position, steps));
          CHECK((out.output_BTHV[b] - expected.back()).narrow(0, 0, length).abs().sum().item<double>() < 1e-11);
        }
        const KeyValueRing ring_after = make_ring(key, value, position_B + lengths_B, window);
        CHECK(torch::equal(out.ring.key_BSHK, ring_after.key_BSHK));
        CHECK(torch::equal(out.ring.value_BSHV, ring_after.value_BSHV));

        for (std::int64_t t = 0; t < std::min<std::int64_t>(steps, 4); ++t) {
          const WindowStepPlan step_plan(window, window, position_B + t, torch::kFloat64);
          const Tensor output_BHV = step_plan.attend(recent(query).select(1, t), recent(key).select(1, t),
                                                     recent(value).select(1, t), ring, 0);
          for (std::int64_t b = 0; b < batch; ++b)
            CHECK((output_BHV[b] - expected[static_cast<std::size_t>(b)][t]).abs().max().item<double>() < 1e-12);
        }
      }
}

TEST_CASE("window attention by blocks has the gradients of the masked softmax over the whole sequence") {
  torch::manual_seed(6);
  const std::int64_t batch = 2, steps = 170;
  for (const std::int64_t window : {1, 20, 64, 80}) {
    CAPTURE(window);
    const auto leaf = [&] { return random_doubles({batch, steps, 2, 4}).requires_grad_(); };
    const std::vector<Tensor> in{leaf(), leaf(), leaf()};
    const Tensor weight = random_doubles({batch, steps, 2, 4});
    const WindowPlan plan(window, steps, 0, lengths({0, 0}), /*lengths_B=*/{}, torch::kFloat64);
    const Tensor output = plan.attend(in[0], in[1], in[2], /*ring=*/{}).output_BTHV;
    std::vector<Tensor> expected;
    for (std::int64_t b = 0; b < batch; ++b) expected.push_back(masked_softmax(in[0][b], in[1][b], in[2][b], window));
    const auto actual_gradients = torch::autograd::grad({(output * weight).sum()}, in),
               gradients = torch::autograd::grad({(torch::stack(expected) * weight).sum()}, in);
    for (std::size_t i = 0; i < in.size(); ++i)
      CHECK((actual_gradients[i] - gradients[i]).abs().max().item<double>() < 1e-12);
  }
}

TEST_CASE("rotary positions turn each pair of channels by its angle") {
  torch::manual_seed(5);
  const std::int64_t width = 10;
  const Tensor positions = torch::tensor({{0, 1, 7}, {2000, 3, 64}}, torch::kInt64);
  const Tensor x = random_doubles({2, 3, 2, width});
  const Tensor turned = Rotary(positions, width, torch::kFloat64).turn(x);
  for (std::int64_t b = 0; b < 2; ++b)
    for (std::int64_t t = 0; t < 3; ++t)
      for (std::int64_t h = 0; h < 2; ++h)
        for (std::int64_t i = 0; i < width / 2; ++i) {
          const double angle =
              positions[b][t].item<double>() * std::pow(10000.0, -2.0 * static_cast<double>(i) / width);
          const double first = x[b][t][h][i].item<double>(), second = x[b][t][h][i + width / 2].item<double>();
          CHECK(std::abs(turned[b][t][h][i].item<double>() - (first * std::cos(angle) - second * std::sin(angle))) <
                1e-12);
          CHECK(std::abs(turned[b][t][h][i + width / 2].item<double>() -
                         (second * std::cos(angle) + first * std::sin(angle))) < 1e-12);
        }
  CHECK_THROWS_AS(Rotary(positions, 5, torch::kFloat64), c10::Error);
}

TEST_CASE("a turn's gradient is the opposite turn, and half precision is turned in that of the angles") {
  torch::manual_seed(7);
  const Tensor positions = torch::tensor({{0, 1, 7}}, torch::kInt64);
  const Tensor x = random_doubles({2, 3, 2, 10}).requires_grad_(), weight = random_doubles({2, 3, 2, 10});
  const Rotary forth(positions, 10, torch::kFloat64), back(-positions, 10, torch::kFloat64);
  const Tensor gradient = torch::autograd::grad({(forth.turn(x) * weight).sum()}, {x})[0];
  CHECK((gradient - back.turn(weight)).abs().max().item<double>() < 1e-12);

  const Tensor half = x.detach().to(torch::kBFloat16);
  const Tensor turned = Rotary(positions, 10, torch::kFloat32).turn(half);
  CHECK((turned.scalar_type() == torch::kBFloat16));
  // One rounding to 8 bits.
  const Tensor exact = forth.turn(half.to(torch::kFloat64));
  CHECK(((turned.to(torch::kFloat64) - exact).abs() / (exact.abs() + 1e-6)).max().item<double>() < 0x1p-8);
}

TEST_CASE("l2_normalize gives unit vectors, and zero for zero with a finite gradient") {
  torch::manual_seed(6);
  const Tensor x = random_doubles({4, 9});
  CHECK((l2_normalize(x).norm(2, -1) - 1).abs().max().item<double>() < 1e-5);
  const Tensor zero = torch::zeros({9}, torch::kFloat64).requires_grad_();
  const Tensor normalised = l2_normalize(zero);
  CHECK((normalised == 0).all().item<bool>());
  normalised.sum().backward();
  CHECK(zero.grad().isfinite().all().item<bool>());
}
