// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
// A stream is named by (seed, purpose, environment, episode); its n-th draw is a pure function of these and n, the same
// on the CPU and on the GPU.
#pragma once

#include <cstdint>

#include "base/host_device.h"

namespace engram {

// What random numbers are drawn for. The purpose is part of every counter, so streams of different purposes
// never coincide, whatever the seed: evaluation episodes are disjoint from training episodes by construction.
enum class Purpose : std::uint32_t {
  kTraining = 0,
  kEvaluation = 1,
  kRun = 2,
  kReplay = 3,
  kAction = 4,
  kTest = 5,
  kDropout = 6,
  kBootstrap = 7,
  kRunTask = 8,            // what a task draws once for a run
  kRunTaskEvaluation = 9,  // and what it then draws once more, for evaluation
};

struct PhiloxBlock {
  std::uint32_t word[4];
};

HOST_DEVICE constexpr PhiloxBlock philox4x32_10(PhiloxBlock counter, std::uint32_t key0, std::uint32_t key1) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{0xD2511F53u} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{0xCD9E8D57u} * counter.word[2];
    counter = PhiloxBlock{
        {static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key0, static_cast<std::uint32_t>(product1),
         static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key1, static_cast<std::uint32_t>(product0)}};
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return counter;
}

// One stream of random numbers. Plain data: copying it copies the position. The counter is (draw / 4, episode,
// environment, purpose), the key the seed.
class Rng {
 public:
  Rng() = default;
  HOST_DEVICE constexpr Rng(std::uint64_t seed, Purpose purpose, std::uint32_t environment, std::uint32_t episode)
      : seed_(seed), environment_(environment), episode_(episode), purpose_(static_cast<std::uint32_t>(purpose)) {}

  // Uniform over all 32-bit numbers.
  HOST_DEVICE constexpr std::uint32_t next() {
    const PhiloxBlock block = philox4x32_10(PhiloxBlock{{draw_ / 4, episode_, environment_, purpose_}},
                                            static_cast<std::uint32_t>(seed_), static_cast<std::uint32_t>(seed_ >> 32));
    return block.word[draw_++ % 4];
  }

  // Uniform over 0 .. count - 1, count >= 1, without bias (Lemire's multiplication with rejection).
  HOST_DEVICE constexpr std::uint32_t below(std::uint32_t count) {
    const std::uint32_t rejected = (0u - count) % count;
    std::uint64_t product = std::uint64_t{next()} * count;
    while (static_cast<std::uint32_t>(product) < rejected) product = std::uint64_t{next()} * count;
    return static_cast<std::uint32_t>(product >> 32);
  }

  // Uniform over [0, 1), 24 random bits.
  HOST_DEVICE constexpr float uniform() { return static_cast<float>(next() >> 8) * 0x1p-24f; }

 private:
  std::uint64_t seed_ = 0;
  std::uint32_t environment_ = 0;
  std::uint32_t episode_ = 0;
  std::uint32_t purpose_ = 0;
  std::uint32_t draw_ = 0;
};

}  // namespace engram
