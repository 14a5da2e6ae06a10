#include "base/rng.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <set>

using namespace engram;

// Known answers of the authors' own distribution of Philox4x32-10 (Random123, kat_vectors).
TEST_CASE("philox4x32-10 gives the published known answers") {
  const auto check = [](PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1, PhiloxBlock expected) {
    const PhiloxBlock block = philox4x32_10(counter, key0, key1);
    for (int i = 0; i < 4; ++i) CHECK(block.word[i] == expected.word[i]);
  };
  check({{0, 0, 0, 0}}, 0, 0, {{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}});
  check({{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u, {{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}});
  check({{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0,
        {{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}});
}

TEST_CASE("streams of different names differ, the same name repeats") {
  const auto first_draws = [](Rng rng) {
    std::array<std::uint32_t, 4> draws;
    for (auto& draw : draws) draw = rng.next();
    return draws;
  };
  std::set<std::array<std::uint32_t, 4>> seen;
  int streams = 0;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const Purpose purpose : {Purpose::kTraining, Purpose::kEvaluation})
      for (std::uint32_t environment = 0; environment < 4; ++environment)
        for (std::uint32_t episode = 0; episode < 4; ++episode, ++streams) {
          const Rng rng(seed, purpose, environment, episode);
          CHECK(first_draws(rng) == first_draws(rng));
          seen.insert(first_draws(rng));
        }
  CHECK(static_cast<int>(seen.size()) == streams);
}

TEST_CASE("below and uniform stay in range and cover it evenly") {
  Rng rng(3, Purpose::kTest, 0, 0);
  constexpr int kDraws = 30000;
  std::array<int, 3> count{};
  double sum = 0;
  for (int i = 0; i < kDraws; ++i) {
    const std::uint32_t draw = rng.below(3);
    REQUIRE(draw < 3);
    ++count[draw];
    const float uniform = rng.uniform();
    REQUIRE(uniform >= 0);
    REQUIRE(uniform < 1);
    sum += uniform;
  }
  // Five standard deviations of a binomial count and of a mean of uniforms.
  for (const int c : count) CHECK(std::abs(c - kDraws / 3) < 5 * 82);
  CHECK(std::abs(sum / kDraws - 0.5) < 5 * 0.00167);
}
