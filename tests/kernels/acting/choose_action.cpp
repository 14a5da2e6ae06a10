#include "kernels/acting/choose_action/choose_action.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/sample_action.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Choice {
  std::vector<float> probabilities;
  std::vector<std::int32_t> actions;
  std::vector<Rng> streams;
  std::vector<std::uint8_t> fresh;
  int diverged;
};

std::vector<Rng> streams(int rows) {
  std::vector<Rng> all;
  for (int row = 0; row < rows; ++row) all.emplace_back(3, Purpose::kTest, row, 31);
  return all;
}

// The rows of logits stand apart, with nothing that may be read between them.
Choice choose(const std::vector<float>& logits, int rows, int actions, bool greedy) {
  const int stride = actions + rows % 3;
  std::vector<float> apart = unwritten(static_cast<std::size_t>(rows) * stride);
  for (int i = 0; i < rows * actions; ++i) apart[i / actions * stride + i % actions] = logits[i];
  const DeviceBuffer<float> device_logits(apart);
  DeviceBuffer<Rng> device_streams(streams(rows));
  DeviceBuffer<float> probabilities(unwritten(logits.size()));
  DeviceBuffer<std::int32_t> chosen(std::vector<std::int32_t>(rows, -1));
  DeviceBuffer<std::uint8_t> fresh(std::vector<std::uint8_t>(rows, 1));
  DeviceBuffer<int> diverged(std::vector<int>(1, 0));
  choose_action({rows, actions, greedy, device_logits.data(), stride, device_streams.data(), probabilities.data(),
                 chosen.data(), fresh.data(), diverged.data()},
                nullptr);
  return {probabilities.to_host(), chosen.to_host(), device_streams.to_host(), fresh.to_host(), diverged.to_host()[0]};
}

}  // namespace

// Some rounding of a sum of A terms and of expf, each about 2^-24 of a probability.
TEST_CASE("small shapes: probabilities are the softmax in double precision, actions those of the CPU") {
  if (skip_without_gpu()) return;
  for (const int actions : {1, 2, 4, 31, 32, 33, 64, 65, 1000})
    for (const int rows : {1, 3, 4, 5, 333})
      for (const bool greedy : {false, true}) {
        CAPTURE(actions);
        CAPTURE(rows);
        CAPTURE(greedy);
        Rng rng(1, Purpose::kTest, 32, 0);
        std::vector<float> logits;
        // Large ones, too, which overflow without the subtraction of the largest.
        for (int i = 0; i < rows * actions; ++i) logits.push_back(static_cast<float>(90 + 4 * normal(rng)));
        const Choice choice = choose(logits, rows, actions, greedy);
        CHECK(choice.diverged == 0);
        CHECK(choice.fresh == std::vector<std::uint8_t>(rows, 0));
        std::vector<Rng> expected_streams = streams(rows);
        double error = 0;
        int other_actions = 0, other_draws = 0;
        for (int row = 0; row < rows; ++row) {
          const float* x = logits.data() + row * actions;
          const float* p = choice.probabilities.data() + row * actions;
          double total = 0;
          for (int a = 0; a < actions; ++a) total += std::exp(static_cast<double>(x[a]) - x[0]);
          for (int a = 0; a < actions; ++a)
            keep_worst(error, std::abs(p[a] - std::exp(static_cast<double>(x[a]) - x[0]) / total));
          Rng& stream = expected_streams[row];
          const std::int32_t expected = greedy ? greedy_action(p, actions) : sample_action(p, actions, stream);
          other_actions += choice.actions[row] != expected;
          Rng after = choice.streams[row];
          other_draws += after.next() != stream.next();
        }
        CHECK(error <= 2e-6);
        CHECK(other_actions == 0);
        CHECK(other_draws == 0);
      }
}

TEST_CASE("a logit that is not finite is reported and reaches no other row") {
  if (skip_without_gpu()) return;
  for (const float bad : {NAN, INFINITY})
    for (const int actions : {4, 100})
      for (const bool greedy : {false, true}) {
        constexpr int kRows = 6;
        std::vector<float> logits(static_cast<std::size_t>(kRows) * actions, 0.5f);
        logits[2 * actions + actions - 1] = bad;
        const Choice choice = choose(logits, kRows, actions, greedy);
        CHECK(choice.diverged == 1);
        for (int row = 0; row < kRows; ++row) {
          CHECK((choice.actions[row] >= 0 && choice.actions[row] < actions));
          CHECK(std::isfinite(choice.probabilities[(row + 1) * actions - 1]) == (row != 2));
        }
      }
}

TEST_CASE("an action of logit -inf has no probability and is never drawn") {
  if (skip_without_gpu()) return;
  constexpr int kRows = 500, kActions = 3;
  std::vector<float> logits;
  for (int row = 0; row < kRows; ++row) logits.insert(logits.end(), {0.0f, -INFINITY, 1.0f});
  const Choice choice = choose(logits, kRows, kActions, false);
  CHECK(choice.diverged == 0);
  CHECK(std::count(choice.actions.begin(), choice.actions.end(), 1) == 0);
  CHECK(std::count(choice.actions.begin(), choice.actions.end(), 0) > 0);
}
