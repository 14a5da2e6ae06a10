#include "base/dropout.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <initializer_list>

using namespace engram;

TEST_CASE("dropout compares 16 bits an element, in the order of the words' halves, with the threshold") {
  const std::int64_t seed_tick[2] = {(std::int64_t{5} << 32) + 7, 12345};
  for (const double probability : {0.0001, 0.1, 0.5, 0.9999}) {
    const DropoutKey key(seed_tick, 3, probability);
    int kept = 0;
    constexpr int kGroups = 20000;
    for (std::int64_t group = 0; group < kGroups; ++group) {
      const std::int64_t far = group << 20;  // beyond 32 bits
      const PhiloxBlock block = philox4x32_10({{static_cast<std::uint32_t>(far), static_cast<std::uint32_t>(far >> 32),
                                                12345, 3u << 8 | static_cast<std::uint32_t>(Purpose::kDropout)}},
                                              7, 5);
      float factor[kDropoutGroup];
      key.draw(far, factor);
      const std::uint32_t bits = key.kept(far);
      REQUIRE(bits < 1u << kDropoutGroup);
      for (int i = 0; i < kDropoutGroup; ++i) {
        const bool expected = (block.word[i / 2] >> i % 2 * 16 & 0xffff) >= key.threshold;
        REQUIRE(((bits >> i & 1) != 0) == expected);
        REQUIRE(factor[i] == (expected ? key.scale : 0.0f));
        kept += expected;
      }
    }
    // 160,000 draws: a standard deviation of at most 0.00125.
    CHECK(std::abs(static_cast<double>(kept) / (kGroups * kDropoutGroup) - (1 - probability)) <= 0.006);
  }
}
