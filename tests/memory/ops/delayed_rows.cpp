// The delayed HQLTs' memories over rearranged rows, against loops over steps in the words of their definition.
#include "memory/ops/delayed_rows.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>
#include <vector>

#include "memory/ops/fast_weight_ops.h"

using namespace engram;
using torch::Tensor;

namespace {

constexpr std::int64_t kSequences = 3, kDelayedHeads = 2, kChannels = 4;

struct Problem {
  std::int64_t steps, window;
  Tensor lengths_B = torch::tensor({steps, steps / 2, std::int64_t{0}}, torch::kInt64);
  Tensor features_M3X =
      torch::nn::functional::normalize(torch::randn({kSequences * steps, 3, kDelayedHeads, kChannels}, torch::kFloat64),
                                       torch::nn::functional::NormalizeFuncOptions().dim(-1))
          .flatten(2);
  Tensor write_MH = torch::rand({kSequences * steps, kDelayedHeads}, torch::kFloat64);

  Tensor part(int number) const {
    return features_M3X.select(1, number).unflatten(0, {kSequences, steps}).unflatten(2, {kDelayedHeads, kChannels});
  }
};

// One step after the other: what reaches the fast weights before step t is read.
Tensor by_definition(const Problem& p, Delay delay) {
  const Tensor query = p.part(0), key = p.part(1), value = p.part(2);
  const Tensor write = p.write_MH.unflatten(0, {kSequences, p.steps});
  Tensor answers = torch::zeros({kSequences, p.steps, kDelayedHeads, kChannels}, torch::kFloat64);
  for (std::int64_t b = 0; b < kSequences; ++b)
    for (std::int64_t h = 0; h < kDelayedHeads; ++h) {
      Tensor memory_KV = torch::zeros({kChannels, kChannels}, torch::kFloat64);
      // strength: the step whose write strength is taken; a stream's is that of the step at which it writes.
      const auto remember = [&](std::int64_t t, std::int64_t strength) {
        const Tensor k = key[b][t][h], v = value[b][t][h];
        memory_KV = memory_KV + write[b][strength][h] * torch::outer(k, v - memory_KV.t().mv(k));
      };
      for (std::int64_t t = 0; t < p.lengths_B[b].item<std::int64_t>(); ++t) {
        if (delay == Delay::kStream && t >= p.window) remember(t - p.window, t);
        answers[b][t][h] = memory_KV.t().mv(query[b][t][h]) / std::sqrt(static_cast<double>(kChannels));
        if (delay == Delay::kChunk && t % p.window == p.window - 1)
          for (std::int64_t s = t + 1 - p.window; s <= t; ++s) remember(s, s);
      }
    }
  return answers.flatten(0, 1).flatten(1);
}

Tensor by_rows(const Problem& p, const DelayedRows& rows, const Tensor& features_N3X, const Tensor& write_NH) {
  const Tensor is_step_BN = torch::arange(rows.steps()) < rows.lengths(p.lengths_B).unsqueeze(1);
  const auto part = [&](int number) {
    return features_N3X.select(1, number)
        .unflatten(0, {kSequences, rows.steps()})
        .where(is_step_BN.unsqueeze(2), 0)
        .unflatten(2, {kDelayedHeads, kChannels});
  };
  const Tensor nothing = torch::zeros({kSequences, kDelayedHeads, kChannels, kChannels}, torch::kFloat64);
  return fast_weights({.delta = true},
                      {part(0), part(1), part(2), write_NH.unflatten(0, {kSequences, rows.steps()}), {}},
                      {nothing, {}, {}}, rows.lengths(p.lengths_B))
      .output_BTHV.flatten(0, 1)
      .flatten(1);
}

Tensor valid_M1(const Problem& p) { return (torch::arange(p.steps) < p.lengths_B.unsqueeze(1)).flatten().unsqueeze(1); }

// Where nothing is written nothing depends on it.
Tensor gradient_of(const Tensor& x) { return x.grad().defined() ? x.grad() : torch::zeros_like(x); }

// Steps before, at and behind whole windows, and a window longer than the episode.
const std::vector<std::pair<std::int64_t, std::int64_t>> kSizes = {{12, 4}, {13, 4}, {3, 4}, {7, 1}, {5, 5}};

// check(problem, delay, its rows), of every size and delay.
template <class Check>
void for_each_problem(Check check) {
  for (const Delay delay : {Delay::kStream, Delay::kChunk})
    for (const auto& [steps, window] : kSizes) {
      CAPTURE(steps);
      CAPTURE(window);
      check(Problem{steps, window}, delay, DelayedRows(delay, kSequences, steps, window));
    }
}

}  // namespace

TEST_CASE("a memory over the rows of a delay answers as the delay is defined") {
  torch::manual_seed(1);
  for_each_problem([](const Problem& p, Delay delay, const DelayedRows& rows) {
    const Tensor answers = rows.answers(by_rows(p, rows, rows.features(p.features_M3X), rows.write(p.write_MH)));
    CHECK(torch::allclose(answers.where(valid_M1(p), 0), by_definition(p, delay), 0, 1e-12));
  });
}

TEST_CASE("the gradients of a delay's rows are those of what they were made of") {
  torch::manual_seed(2);
  for_each_problem([](const Problem& p, Delay delay, const DelayedRows& rows) {
    const Tensor features = p.features_M3X.clone().requires_grad_(), write = p.write_MH.clone().requires_grad_();
    const Tensor weight =
        torch::randn({kSequences * p.steps, kDelayedHeads * kChannels}, torch::kFloat64).where(valid_M1(p), 0);
    (by_definition({p.steps, p.window, p.lengths_B, features, write}, delay) * weight).sum().backward();

    const Tensor memory_features = rows.features(p.features_M3X).requires_grad_(),
                 memory_write = rows.write(p.write_MH).requires_grad_();
    const auto d = torch::autograd::grad({by_rows(p, rows, memory_features, memory_write)},
                                         {memory_features, memory_write}, {rows.answers_backward(weight)});
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const Tensor d_features = torch::full_like(features, nan), d_write = torch::full_like(write, nan);
    rows.features_backward(d[0], d_features);
    rows.write_backward(d[1], d_write);
    CHECK(torch::allclose(d_features, gradient_of(features), 0, 1e-12));
    CHECK(torch::allclose(d_write, gradient_of(write), 0, 1e-12));
  });
}
