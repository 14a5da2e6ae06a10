#include "kernels/learner/advantages/advantages.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "kernels/learner/advantages/episode.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

// What the kernel may not read is NaN.
struct Problem {
  int batch, time;
  std::vector<std::int64_t> steps;
  Numbers reward, terminated, value;
};

Problem make_problem(int batch, int time) {
  Rng rng(3, Purpose::kTest, static_cast<unsigned>(batch), static_cast<unsigned>(time));
  Problem p{batch, time, {}, {}, {}, {}};
  for (const int steps : ragged_lengths(rng, batch, time)) p.steps.push_back(steps);
  for (int b = 0; b < batch; ++b)
    for (int t = 0; t <= time; ++t) {
      const bool valid = t < p.steps[b], terminated = b % 2 == 0;
      const bool bootstrapped = t == p.steps[b] && t > 0 && !terminated;
      p.value.push_back(valid || bootstrapped ? rounded(normal(rng), Dtype::kFloat32) : kNaN);
      if (t == time) continue;
      p.reward.push_back(valid ? rounded(normal(rng), Dtype::kFloat32) : kNaN);
      p.terminated.push_back(valid ? terminated && t == p.steps[b] - 1 : kNaN);
    }
  return p;
}

// The header's sum, written out.
Numbers reference(const Problem& p, double gamma, double lambda) {
  Numbers advantage(p.reward.size());
  for (int b = 0; b < p.batch; ++b)
    for (std::int64_t t = 0; t < p.steps[b]; ++t) {
      double weight = 1;
      for (std::int64_t later = t; later < p.steps[b] && weight > 1e-20; ++later, weight *= gamma * lambda) {
        const std::int64_t step = std::int64_t{b} * p.time + later, row = step + b;
        const double next = p.terminated[step] == 1 ? 0 : p.value[row + 1];
        advantage[std::int64_t{b} * p.time + t] += weight * (p.reward[step] + gamma * next - p.value[row]);
      }
    }
  return advantage;
}

Numbers run(const Problem& p, double gamma, double lambda) {
  const auto given = [](const Numbers& x) { return upload(x, Dtype::kFloat32); };
  const DeviceBytes reward = given(p.reward), terminated = given(p.terminated), value = given(p.value);
  const DeviceBuffer<std::int64_t> steps(p.steps);
  DeviceBytes advantage = poisoned(p.reward.size(), Dtype::kFloat32);
  estimate_advantages({p.batch, p.time, static_cast<float>(gamma), static_cast<float>(lambda), floats(reward),
                       floats(terminated), floats(value), steps.data()},
                      floats(advantage), nullptr);
  return download(advantage, Dtype::kFloat32);
}

}  // namespace

TEST_CASE("advantages of ragged episodes equal their sums, with zeros behind") {
  if (skip_without_gpu()) return;
  for (const auto& [batch, time] : {std::pair(1, 1), {3, 5}, {31, 33}, {32, 64}, {33, 7}, {768, 52}, {5, 1000}})
    for (const auto& [gamma, lambda] : {std::pair(0.99f, 0.95f), {0.9f, 0.0f}, {1.0f, 1.0f}}) {
      CAPTURE(batch);
      CAPTURE(time);
      CAPTURE(gamma);
      const Problem p = make_problem(batch, time);
      const Numbers expected = reference(p, gamma, lambda), actual = run(p, gamma, lambda);
      CHECK(relative_error(actual, expected) <= 1e-5);  // up to 1,000 additions in float
      std::size_t wrong = 0;
      for (std::size_t i = 0; i < expected.size(); ++i)
        wrong += static_cast<std::int64_t>(i % p.time) >= p.steps[i / p.time] && actual[i] != 0;
      CHECK(wrong == 0);
    }
}

TEST_CASE("the kernel's advantages are those of the loop on a CPU but for rounding, and the same each time") {
  if (skip_without_gpu()) return;
  const Problem p = make_problem(40, 70);
  const std::vector<float> reward = single(p.reward), terminated = single(p.terminated), value = single(p.value);
  std::vector<float> expected = unwritten(p.reward.size());
  for (int b = 0; b < p.batch; ++b)
    estimate_advantages(&reward[b * p.time], &terminated[b * p.time], &value[b * (p.time + 1)], p.steps[b], p.time,
                        0.99f, 0.95f, &expected[b * p.time]);
  const Numbers actual = run(p, 0.99, 0.95);
  CHECK(relative_error(actual, Numbers(expected.begin(), expected.end())) <= 5e-6);
  CHECK(different_runs([&] { return run(p, 0.99, 0.95); }, 100) == 0);
}

TEST_CASE("moments of ragged episodes' advantages are those of their steps alone, and the same each time") {
  if (skip_without_gpu()) return;
  for (const auto& [batch, time] : {std::pair(1, 1), {3, 5}, {33, 7}, {768, 52}, {5, 10'000}}) {
    CAPTURE(batch);
    CAPTURE(time);
    const Problem p = make_problem(batch, time);
    Numbers advantage(p.reward.size(), kNaN), expected(kAdvantageMoments);
    Rng rng(3, Purpose::kTest, 0, 0);
    for (int b = 0; b < batch; ++b)
      for (std::int64_t t = 0; t < p.steps[b]; ++t) {
        const double a = advantage[std::int64_t{b} * time + t] = rounded(normal(rng) + 0.3, Dtype::kFloat32);
        expected[0] += 1, expected[1] += a, expected[2] += a * a;
      }
    const auto run_once = [&] {
      const DeviceBytes given = upload(advantage, Dtype::kFloat32);
      const DeviceBuffer<std::int64_t> steps(p.steps);
      DeviceBuffer<double> moments(kAdvantageMoments), scratch(kAdvantageMomentsScratch);
      advantage_moments(batch, time, floats(given), steps.data(), moments.data(), scratch.data(), nullptr);
      return moments.to_host();
    };
    const Numbers actual = run_once();
    for (int i = 0; i < kAdvantageMoments; ++i) CHECK(actual[i] == doctest::Approx(expected[i]).epsilon(1e-12));
    CHECK(run_once() == actual);
  }
}
