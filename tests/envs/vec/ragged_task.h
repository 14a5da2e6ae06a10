// A task for tests of what is played and kept: episodes of 1 to 40 steps, mostly short ones, which end at random by
// termination or truncation. Every byte of an observation and every reward depends on the episode and on the step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram::testing {

struct RaggedTask {
  static constexpr const char* kName = "ragged";
  static constexpr const char* kDescription = "episodes of very different lengths";
  static constexpr const char* kMemoryDemand = "none";
  static constexpr const char* kSource = "a test";
  static constexpr int kNumActions = 3;
  static constexpr const char* kActionNames[] = {"a", "b", "c"};
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = "nothing is to be guessed";
  static constexpr int kMaxSteps = 40;
  static constexpr int kElements = 3 * 5 * 5;  // odd: rows of observations have no alignment

  struct Options {
    using Task = RaggedTask;
    void check() const {}
  };

  struct Params {
    std::uint32_t salt;
  };

  struct State {
    std::uint32_t name;  // of the episode
    std::int32_t step, length;
    bool truncated, success;
  };

  using Element = std::uint8_t;

  static Params make_params(const Options&, std::uint64_t seed, Purpose) { return {static_cast<std::uint32_t>(seed)}; }
  static std::vector<std::int64_t> observation_shape(const Params&) { return {3, 5, 5}; }
  static int max_episode_steps(const Params&) { return kMaxSteps; }

  HOST_DEVICE static constexpr State reset(const Params&, Rng& rng) {
    State state{};
    state.name = rng.next();
    state.length = 1 + static_cast<std::int32_t>(rng.below(1 + rng.below(kMaxSteps)));
    state.truncated = rng.below(2) == 1;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params&, State& state, int action, Rng& rng) {
    ++state.step;
    state.success = rng.below(3) == static_cast<std::uint32_t>(action);
    const float reward = static_cast<float>(state.name % 1000) + 0.25f * static_cast<float>(4 * state.step + action);
    if (state.step < state.length) return {reward, End::kNone};
    return {reward, state.truncated ? End::kTruncated : End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.success; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    std::uint32_t bits = params.salt + state.name + 0x9E3779B9u * static_cast<std::uint32_t>(state.step + 1);
    for (int i = 0; i < kElements; ++i) {
      bits = 1664525u * bits + 1013904223u;
      out[i] = static_cast<std::uint8_t>(bits >> 24);
    }
  }

  static void draw(const Params&, const State&, Canvas&) {}
  static std::string phase(const Params&, const State&) { return "ragged"; }
};

static_assert(GridTask<RaggedTask>);

}  // namespace engram::testing
