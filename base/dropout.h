// Dropout without a generator: whether an element is dropped is a pure function of (seed, tick, site, index), the same
// on the CPU and on the GPU, so that a run is reproducible, a captured CUDA graph draws afresh at each replay, and a
// backward pass may draw the forward pass's mask again instead of keeping it.
//
// seed: of the run. tick: counts the forward passes of a network, in memory that its device reads. site: which dropout
// of the network it is. index: of element (row, c) of a tensor with C channels in its last dimension, row *
// dropout_row(C) + c, so that rows begin with a group of eight whatever C is.
#pragma once

#include <cstdint>

#include "base/rng.h"

namespace engram {

constexpr int kDropoutGroup = 8;  // elements drawn together

// The distance between the indices of two rows of `channels` elements.
HOST_DEVICE constexpr std::int64_t dropout_row(std::int64_t channels) {
  return (channels + kDropoutGroup - 1) / kDropoutGroup * kDropoutGroup;
}

struct DropoutKey {
  const std::int64_t* seed_tick = nullptr;  // int64 [2], on the device that draws; not read where nothing is dropped
  std::uint32_t site = 0;                   // < 2^24
  std::uint32_t threshold = 0;              // of 65536: 16 bits below it drop the element; 0: nothing is dropped
  float scale = 1;                          // of a kept element, 65536 / (65536 - threshold)

  DropoutKey() = default;
  // 0 <= probability < 1; it is rounded to a multiple of 2^-16.
  constexpr DropoutKey(const std::int64_t* seed_and_tick, std::uint32_t site_index, double probability)
      : seed_tick(seed_and_tick),
        site(site_index),
        threshold(static_cast<std::uint32_t>(probability * 65536 + 0.5)),
        scale(65536.0f / static_cast<float>(65536 - threshold)) {}

  HOST_DEVICE constexpr bool drops() const { return threshold != 0; }

  // Which of the elements 8 * group .. 8 * group + 7 are kept, a bit each, the first element's the lowest.
  HOST_DEVICE constexpr std::uint32_t kept(std::int64_t group) const {
    const auto seed = static_cast<std::uint64_t>(seed_tick[0]);
    const PhiloxBlock block = philox4x32_10(
        PhiloxBlock{
            {static_cast<std::uint32_t>(group), static_cast<std::uint32_t>(static_cast<std::uint64_t>(group) >> 32),
             static_cast<std::uint32_t>(seed_tick[1]), site << 8 | static_cast<std::uint32_t>(Purpose::kDropout)}},
        static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
    // A word's upper half decides a comparison with the threshold in the upper half, whatever the lower half is.
    const std::uint32_t bound = threshold << 16;
    std::uint32_t bits = 0;
    for (int i = 0; i < kDropoutGroup; ++i) {
      const std::uint32_t word = i % 2 == 0 ? block.word[i / 2] << 16 : block.word[i / 2];
      bits |= (word >= bound ? 1u : 0u) << i;
    }
    return bits;
  }
  // What the elements 8 * group .. 8 * group + 7 are multiplied with: 0 or `scale`.
  HOST_DEVICE constexpr void draw(std::int64_t group, float (&factor)[kDropoutGroup]) const {
    const std::uint32_t bits = kept(group);
    for (int i = 0; i < kDropoutGroup; ++i) factor[i] = (bits >> i & 1) != 0 ? scale : 0.0f;
  }
};

}  // namespace engram
