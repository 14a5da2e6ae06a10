#include "kernels/acting/choose_action/choose_numbers.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "base/sample_action.h"
#include "tests/kernels/common/gpu_test.h"

using namespace engram;
using namespace engram::testing;

namespace {

struct Choice {
  std::vector<float> kept, numbers;
  std::vector<Rng> streams;
  std::vector<std::uint8_t> fresh;
  int diverged;
};

std::vector<Rng> streams(int rows) {
  std::vector<Rng> all;
  for (int row = 0; row < rows; ++row) all.emplace_back(3, Purpose::kTest, row, 31);
  return all;
}

std::vector<float> floats_of(const std::vector<std::int32_t>& words) {
  std::vector<float> numbers(words.size());
  std::memcpy(numbers.data(), words.data(), words.size() * sizeof(float));
  return numbers;
}

Choice choose(const std::vector<float>& normal, int rows, int numbers, bool greedy) {
  const DeviceBuffer<float> given(normal);
  DeviceBuffer<Rng> device_streams(streams(rows));
  DeviceBuffer<float> kept(unwritten(normal.size()));
  DeviceBuffer<std::int32_t> chosen(std::vector<std::int32_t>(static_cast<std::size_t>(rows) * numbers, -1));
  DeviceBuffer<std::uint8_t> fresh(std::vector<std::uint8_t>(rows, 1));
  DeviceBuffer<int> diverged(std::vector<int>(1, 0));
  choose_numbers({rows, numbers, greedy, given.data(), device_streams.data(), kept.data(), chosen.data(), fresh.data(),
                  diverged.data()},
                 nullptr);
  return {kept.to_host(), floats_of(chosen.to_host()), device_streams.to_host(), fresh.to_host(),
          diverged.to_host()[0]};
}

std::vector<float> random_normal(int rows, int numbers) {
  Rng rng(1, Purpose::kTest, 33, 0);
  std::vector<float> all;
  for (int i = 0; i < 2 * rows * numbers; ++i) all.push_back(static_cast<float>(normal(rng)));
  return all;
}

}  // namespace

// The normal numbers are the same bits; expf differs in its last place.
TEST_CASE("a continuous action is drawn as on the CPU, or the means") {
  if (skip_without_gpu()) return;
  for (const int numbers : {1, 2, 5})
    for (const int rows : {1, 3, 128, 333})
      for (const bool greedy : {false, true}) {
        CAPTURE(numbers);
        CAPTURE(rows);
        CAPTURE(greedy);
        const std::vector<float> normal = random_normal(rows, numbers);
        const Choice choice = choose(normal, rows, numbers, greedy);
        CHECK(choice.diverged == 0);
        CHECK(choice.kept == normal);
        CHECK(choice.fresh == std::vector<std::uint8_t>(rows, 0));
        std::vector<Rng> expected_streams = streams(rows);
        double error = 0;
        int other_draws = 0;
        for (int row = 0; row < rows; ++row) {
          Rng& stream = expected_streams[static_cast<std::size_t>(row)];
          std::vector<std::int32_t> words(static_cast<std::size_t>(numbers));
          REQUIRE(draw_numbers(normal.data() + 2 * row * numbers, numbers, greedy, stream, words.data()));
          const std::vector<float> expected = floats_of(words);
          for (int a = 0; a < numbers; ++a)
            keep_worst(error, std::abs(choice.numbers[static_cast<std::size_t>(row * numbers + a)] - expected[a]) /
                                  (1 + std::abs(expected[a])));
          Rng after = choice.streams[static_cast<std::size_t>(row)];
          other_draws += after.next() != stream.next();
        }
        CHECK(error <= (greedy ? 0 : 1e-6));
        CHECK(other_draws == 0);
      }
}

TEST_CASE("a mean or a deviation that is not finite is reported and reaches no other row") {
  if (skip_without_gpu()) return;
  for (const float bad : {NAN, INFINITY})
    for (const int place : {0, 1})
      for (const bool greedy : {false, true}) {
        constexpr int kRows = 6;
        std::vector<float> normal = random_normal(kRows, 1);
        normal[2 * 2 + place] = bad;
        const Choice choice = choose(normal, kRows, 1, greedy);
        CHECK(choice.diverged == 1);
        for (int row = 0; row < kRows; ++row)
          if (row != 2) CHECK(std::isfinite(choice.numbers[static_cast<std::size_t>(row)]));
      }
}
