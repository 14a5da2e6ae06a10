// Flash parity, a task made up for this example: a light flashes now and then, and at the end the agent says whether it
// flashed an even number of times. Observation: [3] float: the share of time left, 1 when the answer is due, and 1
// while the light flashes; with full_state the third is 1 while the number of flashes so far is odd.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram {

struct FlashParity {
  static constexpr const char* kName = "flash_parity";
  static constexpr const char* kDescription = "a light flashes now and then; say whether an even number of times";
  static constexpr const char* kMemoryDemand = "parity of the flashes";
  static constexpr const char* kSource = "made up as an example";
  static constexpr int kNumActions = 2;
  static constexpr const char* kActionNames[] = {"even", "odd"};
  static constexpr std::optional<double> kChanceSuccess = 0.5;
  static constexpr const char* kChanceSource = "one of two answers, both equally often right";

  struct Options : TaskOptions<FlashParity> {
    int length = 10;

    void list_options(OptionList& list) {
      list.add("length", length, {1, 1'000'000}, "steps of an episode");
      list_full_state(list, full_state);
    }
  };

  struct Params {
    int length;
    bool full_state;
  };

  struct State {
    std::int32_t t;  // steps so far
    bool flashes;    // now
    bool odd;        // the number of flashes so far
    bool solved;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t, Purpose) {
    return {options.length, options.full_state};
  }
  static std::vector<std::int64_t> observation_shape(const Params&) { return {3}; }
  static int max_episode_steps(const Params& params) { return params.length; }

  HOST_DEVICE static constexpr State reset(const Params&, Rng& rng) {
    const bool flashes = rng.below(2) == 1;
    return {0, flashes, flashes, false};
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    if (++state.t < params.length) {
      state.flashes = rng.below(2) == 1;
      state.odd = state.odd != state.flashes;
      return {0.0f, End::kNone};
    }
    state.solved = (action == 1) == state.odd;
    return {state.solved ? 1.0f : -1.0f, End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out[0] = 1.0f - static_cast<float>(state.t) / static_cast<float>(params.length);
    out[1] = state.t == params.length - 1 ? 1.0f : 0.0f;
    out[2] = (params.full_state ? state.odd : state.flashes) ? 1.0f : 0.0f;
  }

  // One cell, lit while the light flashes.
  static constexpr Rgb kLit{255, 220, 0}, kDark{204, 204, 204};
  static void draw(const Params&, const State& state, Canvas& canvas) {
    canvas.resize(1, 1, state.flashes ? kLit : kDark);
  }
  static std::vector<ColourMeaning> colours(const Params&) { return {{'*', kLit, "flash"}, {'.', kDark, "dark"}}; }
  static std::string phase(const Params& params, const State& state) {
    return state.t < params.length - 1 ? "watch" : "answer";
  }
};

static_assert(GridTask<FlashParity>);

}  // namespace engram
