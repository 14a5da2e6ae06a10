// Memory chain (bsuite's memory_len and memory_size): bits are shown at the start, one of them is asked for at the end.
//
// Source: Osband et al., "Behaviour suite for reinforcement learning", ICLR 2020, in the form of the package bsuite
// 0.3.6. Observation: [2 + B] float for B bits: the share of time left; the number of the bit that is asked for, 0
// before the answer is due; the bits as +1 and -1, 0 once they are hidden, unless full_state.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram {

inline constexpr const char* kBsuiteSource =
    "Osband et al., Behaviour suite for reinforcement learning, ICLR 2020 (bsuite 0.3.6)";
// The numbers that its experiments sweep.
inline constexpr int kBsuiteSweep[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12, 14,
                                       17, 20, 25, 30, 40, 50, 60, 70, 80, 90, 100};

struct MemoryChain {
  static constexpr const char* kName = "memory_chain";
  static constexpr const char* kDescription = "bits are shown at the start; one of them is asked for at the end";
  static constexpr const char* kMemoryDemand = "bits shown at the start";
  static constexpr const char* kSource = kBsuiteSource;
  static constexpr int kNumActions = 2;
  static constexpr const char* kActionNames[] = {"-1", "+1"};
  static constexpr std::optional<double> kChanceSuccess = 0.5;
  static constexpr const char* kChanceSource = "one of two answers, both equally often right";
  static constexpr int kMaxBits = 64;

  struct Options : TaskOptions<MemoryChain> {
    int memory_length = 10;
    int bits = 1;
    bool shown_twice = true;

    void list_options(OptionList& list);
  };

  struct Params {
    int memory_length;
    int bits;
    bool shown_twice;
    bool full_state;
  };

  struct State {
    std::uint64_t context;  // bit i: whether the i-th bit is +1
    std::int32_t t;         // steps so far
    std::int32_t query;
    bool solved;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {2 + params.bits}; }
  static int max_episode_steps(const Params& params) { return num_steps(params); }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    const std::uint64_t low = rng.next(), high = params.bits > 32 ? rng.next() : 0;
    return start(params, high << 32 | low, static_cast<int>(rng.below(static_cast<std::uint32_t>(params.bits))));
  }
  // The state in which an episode with these bits and this query begins.
  HOST_DEVICE static constexpr State start(const Params& params, std::uint64_t context, int query) {
    return {params.bits < 64 ? context & ((std::uint64_t{1} << params.bits) - 1) : context, 0, query, false};
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    if (++state.t < num_steps(params)) return {0.0f, End::kNone};
    state.solved = action == static_cast<int>(state.context >> state.query & 1);
    return {state.solved ? 1.0f : -1.0f, End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    const int moment = moment_of(params, state);
    // Rounded once, from the reference's double.
    out[0] = static_cast<float>(1 - static_cast<double>(moment) / params.memory_length);
    out[1] = moment == params.memory_length - 1 ? static_cast<float>(state.query) : 0.0f;
    const float size = moment == 0 || params.full_state ? 1.0f : 0.0f;
    for (int i = 0; i < params.bits; ++i) out[2 + i] = (state.context >> i & 1) != 0 ? size : 0.0f - size;
  }

  // Two rows of all bits: blue for +1 and red for -1 while they are shown; the one that is asked for, from the start.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // Of a single bit: it, once it is hidden.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether the answer was given.
  static bool decided(const Params& params, const State& state) { return state.t == num_steps(params); }

 private:
  HOST_DEVICE static constexpr int num_steps(const Params& params) {
    return params.memory_length + (params.shown_twice ? 1 : 0);
  }
  // What the observation shows; the reference's first step shows moment 0 once more.
  HOST_DEVICE static constexpr int moment_of(const Params& params, const State& state) {
    return params.shown_twice && state.t > 0 ? state.t - 1 : state.t;
  }
};

static_assert(GridTask<MemoryChain>);

}  // namespace engram
