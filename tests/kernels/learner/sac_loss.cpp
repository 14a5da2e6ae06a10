#include "kernels/learner/sac_loss/sac_loss.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tests/kernels/block/block_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Case {
  int batch, time, actions, stride;
  Dtype dtype = Dtype::kFloat32;  // of the gradients
  double alpha = 0.1, logit_scale = 1;
  unsigned seed = 0;

  std::string name() const {
    return joined("B ", batch, " T ", time, " A ", actions, " in ", stride, " ", name_of(dtype), " logits ",
                  logit_scale, " seed ", seed);
  }
  std::int64_t rows() const { return std::int64_t{batch} * (time + 1); }
};

// What the kernel may not read is NaN, or an action that does not exist.
struct Problem {
  Numbers logits, q1, q2, target_q1, target_q2, reward, terminated;
  std::vector<std::int64_t> action, steps;
};

Problem make_problem(const Case& c) {
  Rng rng(c.seed, Purpose::kTest, 20, static_cast<unsigned>(c.time));
  Problem p;
  for (int b = 0; b < c.batch; ++b)
    p.steps.push_back(b == 0 ? c.time : b == 2 ? 0 : rng.below(static_cast<std::uint32_t>(c.time) + 1));
  for (Numbers* matrix : {&p.logits, &p.q1, &p.q2, &p.target_q1, &p.target_q2}) {
    const bool logits = matrix == &p.logits, next = logits || matrix == &p.target_q1 || matrix == &p.target_q2;
    for (std::int64_t row = 0; row < c.rows(); ++row)
      for (int a = 0; a < c.stride; ++a) {
        const std::int64_t t = row % (c.time + 1), steps = p.steps[row / (c.time + 1)];
        const bool read =
            a < c.actions && (t < steps || (next && t == steps && steps > 0)) && (logits || !next || t > 0);
        matrix->push_back(read ? rounded((logits ? c.logit_scale : 2) * normal(rng), Dtype::kFloat32) : kNaN);
      }
  }
  for (std::int64_t i = 0; i < std::int64_t{c.batch} * c.time; ++i) {
    const std::int64_t t = i % c.time, steps = p.steps[i / c.time];
    const bool valid = t < steps;
    p.reward.push_back(valid ? rounded(normal(rng), Dtype::kFloat32) : kNaN);
    p.terminated.push_back(valid ? (t == steps - 1 && (i / c.time) % 2 == 0) : kNaN);
    p.action.push_back(valid ? rng.below(static_cast<std::uint32_t>(c.actions)) : 1'000'000'000);
  }
  return p;
}

constexpr double kGamma = 0.9;

Numbers softmax(const Numbers& logits) {
  const double largest = *std::max_element(logits.begin(), logits.end());
  Numbers p;
  double sum = 0;
  for (const double x : logits) p.push_back(std::exp(x - largest)), sum += p.back();
  for (double& x : p) x /= sum;
  return p;
}
double clamped_log(double p) { return std::log(std::max(p, static_cast<double>(1e-8f))); }

struct Result {
  Numbers losses, target, d_logits, d_q1, d_q2;
  std::vector<Bytes> bits = {};  // of all of them
};

// The header's formulas, step by step; the gradients by differences of one step's share of `total`, in which the target
// and the smaller critic stand still.
Result reference(const Case& c, const Problem& p) {
  const int A = c.actions;
  const double alpha = static_cast<float>(c.alpha);
  double n = 0;
  for (const std::int64_t steps : p.steps) n += static_cast<double>(steps);
  const Numbers zeros(p.logits.size());
  Result r{Numbers(kSacLosses), Numbers(p.reward.size()), zeros, zeros, zeros};
  for (int b = 0; b < c.batch; ++b)
    for (std::int64_t t = 0; t < p.steps[b]; ++t) {
      const std::int64_t at = (std::int64_t{b} * (c.time + 1) + t) * c.stride, step = std::int64_t{b} * c.time + t;
      const Numbers next = softmax(part(p.logits, at + c.stride, A));
      double value = 0;
      for (int a = 0; a < A; ++a) {
        const std::int64_t i = at + c.stride + a;
        value += next[a] * (std::min(p.target_q1[i], p.target_q2[i]) - alpha * clamped_log(next[a]));
      }
      const double y = p.reward[step] + static_cast<float>(kGamma) * (1 - p.terminated[step]) * value;
      r.target[step] = y;
      Numbers smaller(A);
      for (int a = 0; a < A; ++a) smaller[a] = std::min(p.q1[at + a], p.q2[at + a]);
      // x: logits, Q1 and Q2 of the action taken
      const auto share = [&](const Numbers& x) {
        const Numbers pi = softmax(part(x, 0, A));
        Numbers losses(kSacLosses);
        losses[kSacCritic1] = (x[A] - y) * (x[A] - y) / n, losses[kSacCritic2] = (x[A + 1] - y) * (x[A + 1] - y) / n;
        for (int a = 0; a < A; ++a) {
          losses[kSacActor] += pi[a] * (alpha * clamped_log(pi[a]) - smaller[a]) / n;
          losses[kSacEntropy] -= pi[a] * clamped_log(pi[a]) / n;
        }
        losses[kSacMeanQ] = x[A] / n;
        losses[kSacCritic] = (losses[kSacCritic1] + losses[kSacCritic2]) / 2;
        losses[kSacTotal] = losses[kSacCritic] + losses[kSacActor];
        return losses;
      };
      Numbers x = part(p.logits, at, A);
      x.push_back(p.q1[at + p.action[step]]), x.push_back(p.q2[at + p.action[step]]);
      const Numbers losses = share(x);
      for (int i = 0; i < kSacLosses; ++i) r.losses[i] += losses[i];
      Numbers only_total(kSacLosses);
      only_total[kSacTotal] = n;  // the share is 1/n of a number of the size 1: differences keep their digits
      const Numbers d = numeric_gradient(share, x, only_total);
      for (int a = 0; a < A; ++a) r.d_logits[at + a] = d[a] / n;
      r.d_q1[at + p.action[step]] = d[A] / n, r.d_q2[at + p.action[step]] = d[A + 1] / n;
    }
  return r;
}

// What the kernel makes of it, in memory that begins as NaN.
Result run(const Case& c, const Problem& p) {
  const auto given = [](const Numbers& x) { return upload(x, Dtype::kFloat32); };
  const DeviceBytes logits = given(p.logits), q1 = given(p.q1), q2 = given(p.q2), target_q1 = given(p.target_q1),
                    target_q2 = given(p.target_q2), reward = given(p.reward), terminated = given(p.terminated),
                    alpha = given({c.alpha});
  const DeviceBuffer<std::int64_t> action(p.action), steps(p.steps);
  const SacLossInput input{
      c.batch,           c.time,         c.actions,      c.stride,           static_cast<float>(kGamma),
      floats(alpha),     floats(logits), floats(q1),     floats(q2),         floats(target_q1),
      floats(target_q2), action.data(),  floats(reward), floats(terminated), steps.data()};
  DeviceBytes losses = poisoned(kSacLosses, Dtype::kFloat32), target = poisoned(c.batch * c.time, Dtype::kFloat32),
              d_logits = poisoned(c.rows() * c.stride, c.dtype), d_q1 = poisoned(c.rows() * c.stride, c.dtype),
              d_q2 = poisoned(c.rows() * c.stride, c.dtype), scratch;
  poison(scratch, sac_loss_scratch_bytes(input));
  sac_loss(input, {floats(losses), floats(target), c.dtype, d_logits.data(), d_q1.data(), d_q2.data()}, scratch.data(),
           nullptr);
  return {download(losses, Dtype::kFloat32), download(target, Dtype::kFloat32),
          download(d_logits, c.dtype),       download(d_q1, c.dtype),
          download(d_q2, c.dtype),           bits_of(losses, target, d_logits, d_q1, d_q2)};
}

void check_case(const Case& c) {
  INFO(c.name());
  const Problem p = make_problem(c);
  const Result expected = reference(c, p);
  const Result actual = run(c, p);
  // Means over up to 50,000 steps in float, all of numbers of the size 1; mean_q and the actor's loss may cancel.
  for (int i = 0; i < kSacLosses; ++i) {
    CAPTURE(i);
    CHECK(std::abs(actual.losses[i] - expected.losses[i]) <= 1e-5 * std::max(1.0, std::abs(expected.losses[i])));
  }
  CHECK(relative_error(actual.target, expected.target) <= 1e-6);  // a handful of operations in float
  // p (cost - mean cost) is a difference of numbers of the size of the costs, up to 20 over the number of steps: what
  // float rounds in those stays, however small the difference is where one action has nearly all of the probability.
  const double tolerance = c.dtype == Dtype::kFloat32 ? 1e-5 : rounded_once(c.dtype);
  const double cost_rounding = 20 * 0x1p-23 / static_cast<double>(c.rows());
  double error = 0, size = 0;
  for (std::size_t i = 0; i < expected.d_logits.size(); ++i) {
    error += std::pow(actual.d_logits[i] - expected.d_logits[i], 2);
    size += std::pow(expected.d_logits[i], 2) * tolerance * tolerance + cost_rounding * cost_rounding;
  }
  CHECK(std::sqrt(error) <= std::sqrt(size));
  CHECK(relative_error(actual.d_q1, expected.d_q1) <= tolerance);
  CHECK(relative_error(actual.d_q2, expected.d_q2) <= tolerance);
  // Other actions, padding, columns after the actions.
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < expected.d_q1.size(); ++i) wrong += expected.d_q1[i] == 0 && actual.d_q1[i] != 0;
  CHECK(wrong == 0);
}

std::vector<Case> cases() {
  std::vector<Case> all;
  unsigned seed = 1;
  for (const Dtype dtype : kDtypes)
    for (const auto& [batch, time] : {std::pair(1, 1), {3, 5}, {5, 127}, {4, 255}, {7, 256}, {20, 781}})
      for (const auto& [actions, stride] : {std::pair(2, 2), {3, 8}, {4, 8}, {8, 8}, {31, 32}, {32, 32}})
        if (batch < 20 || stride == 8)
          // Probabilities below 1e-8 where logits are wide: their logarithm stands still.
          for (const double scale : {1.0, 15.0})
            all.push_back({batch, time, actions, stride, dtype, seed % 3 == 0 ? 0.01 : 0.5, scale, seed}), ++seed;
  return all;
}

}  // namespace

TEST_CASE("losses, targets and gradients of soft actor-critic equal the formulas, for ragged episodes") {
  if (skip_without_gpu()) return;
  for (const Case& c : cases()) check_case(c);
}

TEST_CASE("a single action earns no gradient of the actor") {
  if (skip_without_gpu()) return;
  const Case c{3, 9, 1, 8, Dtype::kFloat32, 0.5, 1, 5};
  for (const double x : run(c, make_problem(c)).d_logits) CHECK(std::abs(x) <= 1e-6);
}

TEST_CASE("NaN in one episode of the losses reaches no gradient of another") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    const Case c{5, 40, 4, 8, dtype, 0.1, 1, 3};
    const Problem p = make_problem(c);
    Problem dirty = p;
    const std::size_t rows = static_cast<std::size_t>(c.time + 1) * c.stride;
    std::fill_n(dirty.logits.begin(), rows, kNaN);
    const Result before = run(c, p), after = run(c, dirty);
    CHECK(std::isnan(after.losses[kSacTotal]));
    CHECK(std::isnan(after.d_logits[0]));
    CHECK(equal_but_for(before.d_logits, after.d_logits, rows, 0, 1));
    CHECK(equal_but_for(before.d_q1, after.d_q1, rows, 0, 1));
    CHECK(equal_but_for(before.d_q2, after.d_q2, rows, 0, 1));
    CHECK(equal_but_for(before.target, after.target, c.time, 0, 1));
  }
}

TEST_CASE(
    "NaN in any input of the losses reaches the total, also where another action is taken or a step is the last") {
  if (skip_without_gpu()) return;
  const Case c{3, 40, 4, 8, Dtype::kFloat32, 0.1, 1, 3};
  const Problem p = make_problem(c);
  const int untaken = p.action[0] == 0 ? 1 : 0;
  const auto total = [&](Numbers Problem::*input, std::size_t at) {
    Problem spoilt = p;
    (spoilt.*input)[at] = kNaN;
    return run(c, spoilt).losses[kSacTotal];
  };
  for (const auto input : {&Problem::logits, &Problem::q1, &Problem::q2}) CHECK(std::isnan(total(input, untaken)));
  const std::size_t last = static_cast<std::size_t>(p.steps[0]) * c.stride;  // the row behind the last step
  for (const auto input : {&Problem::logits, &Problem::target_q1, &Problem::target_q2})
    CHECK(std::isnan(total(input, last)));
  for (const auto input : {&Problem::reward, &Problem::terminated}) CHECK(std::isnan(total(input, 0)));
}

TEST_CASE("the same losses give the same bits 1,000 times") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    const Case c{16, 130, 4, 8, dtype, 0.1, 1, 4};
    const Problem p = make_problem(c);
    CHECK(different_runs([&] { return run(c, p).bits; }) == 0);
  }
}

// Few and small, so that compute-sanitizer can watch them.
TEST_CASE("small shapes: losses") {
  if (skip_without_gpu()) return;
  for (const Dtype dtype : kDtypes) {
    check_case({3, 5, 3, 8, dtype, 0.1, 1, 1});
    check_case({4, 130, 4, 4, dtype, 0.1, 15, 2});
  }
}
