// Umbrella chain (bsuite's umbrella_length): the first action takes an umbrella or leaves it; the last step pays for
// whether that was right, all others pay at random.
//
// Source: bsuite (memory_chain.h). Observation: [3 + D] float: whether an umbrella is needed, whether the agent has
// one, the share of time left, and D random bits, drawn anew at every moment. Nothing is hidden: full_state adds
// nothing.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"
#include "envs/tasks/bsuite/memory_chain.h"

namespace engram {

struct UmbrellaChain {
  static constexpr const char* kName = "umbrella_chain";
  static constexpr const char* kDescription = "the first action is paid for at the end, after steps that pay at random";
  static constexpr const char* kMemoryDemand = "none: credit over a delay";
  static constexpr const char* kSource = kBsuiteSource;
  static constexpr int kNumActions = 2;
  static constexpr const char* kActionNames[] = {"leave", "take"};
  static constexpr std::optional<double> kChanceSuccess = 0.5;
  static constexpr const char* kChanceSource = "one of two first actions; what is right is in sight, without memory";
  static constexpr int kMaxDistractors = 127;

  struct Options : TaskOptions<UmbrellaChain> {
    int chain_length = 10;
    int distractors = 20;

    void list_options(OptionList& list);
  };

  struct Params {
    int chain_length;
    int distractors;
  };

  // What is drawn at random for a moment: bit i for the i-th distractor, and the bit after the last one for the reward
  // of a step on the way, set for 1 and clear for -1.
  struct Noise {
    std::uint32_t word[(kMaxDistractors + 1) / 32];

    HOST_DEVICE constexpr bool bit(int i) const { return (word[i / 32] >> i % 32 & 1) != 0; }
  };

  struct State {
    Noise noise;     // of this moment
    std::int32_t t;  // steps so far
    bool needed, taken;
    bool solved;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {3 + params.distractors}; }
  static int max_episode_steps(const Params& params) { return params.chain_length; }

  HOST_DEVICE static constexpr Noise draw_noise(const Params& params, Rng& rng) {
    Noise noise{};
    for (int i = 0; 32 * i < params.distractors + 1; ++i) noise.word[i] = rng.next();
    return noise;
  }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    const bool needed = rng.below(2) == 1, has = rng.below(2) == 1;
    return start(needed, has, draw_noise(params, rng));
  }
  // The state in which an episode begins; `has`: whether the agent has an umbrella before its first action.
  HOST_DEVICE static constexpr State start(bool needed, bool has, const Noise& noise) {
    return {noise, 0, needed, has, false};
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    return step_with(params, state, action, draw_noise(params, rng));
  }
  // The step by which this noise was drawn.
  HOST_DEVICE static constexpr Outcome step_with(const Params& params, State& state, int action, const Noise& noise) {
    if (++state.t == 1) state.taken = action == 1;
    state.noise = noise;
    if (state.t < params.chain_length) return {noise.bit(params.distractors) ? 1.0f : -1.0f, End::kNone};
    state.solved = state.taken == state.needed;
    return {state.solved ? 1.0f : -1.0f, End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out[0] = state.needed ? 1.0f : 0.0f;
    out[1] = state.taken ? 1.0f : 0.0f;
    // Rounded once, from the reference's double.
    out[2] = static_cast<float>(1 - static_cast<double>(state.t) / params.chain_length);
    // Without a branch: the bits are unpredictable.
    for (int i = 0; i < params.distractors; ++i) out[3 + i] = static_cast<float>(state.noise.bit(i));
  }

  // Three cells: blue where an umbrella is needed, blue where the agent has one, brighter the more time is left; below
  // them the random bits.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // Whether the first action was taken.
  static bool decided(const Params&, const State& state) { return state.t > 0; }
};

static_assert(GridTask<UmbrellaChain>);

}  // namespace engram
