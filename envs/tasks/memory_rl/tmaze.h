// T-maze: the start of a corridor tells whether to turn left or right at its end.
//
//                        goal (+1)
//   oracle - start - - - junction        x = 0 .. corridor_length + o
//                        goal (-1)
//
// o is the oracle's distance from the start: 0 in the passive form, where the oracle is seen at reset, and 1 in the
// active form, where the agent has to step back to see it. An episode lasts corridor_length + 2 o + 1 steps.
// With `rewrites` k > 0, which is engram's own, the sign is drawn and shown anew wherever the agent comes to one of k
// further places, x = o + floor(i corridor_length / (k + 1)) for i = 1 .. k: what it showed before no longer counts.
// Source: Ni et al., "When do Transformers shine in RL?", 2023 (Memory-RL), after Bakker, "Reinforcement learning with
// long short-term memory", 2001. Observation: [2] float, at x = 0 [0, goal] the first time and [0, 0] afterwards, in
// the corridor [0, 0], at its end [1, y]. With full_state [5]: these two are followed, at every step, by the goal, the
// share of the corridor that the agent has walked, and 1 where it is late, so that a step costs the penalty, else 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram {

struct TMaze {
  static constexpr const char* kName = "tmaze";
  static constexpr const char* kDescription = "remember a sign to the end of a corridor, then turn where it pointed";
  static constexpr const char* kMemoryDemand = "a sign at the start";
  static constexpr const char* kSource =
      "Ni et al., When do Transformers shine in RL?, NeurIPS 2023 (Memory-RL), after Bakker, Reinforcement learning "
      "with long short-term memory, 2001";
  static constexpr int kNumActions = 4;
  static constexpr const char* kActionNames[] = {"+x", "+y", "-x", "-y"};
  static constexpr std::optional<double> kChanceSuccess = 0.5;
  static constexpr const char* kChanceSource = "one of two goals, the right one drawn with even odds";

  struct Options : TaskOptions<TMaze> {
    bool active = false;
    int corridor_length = 50;
    int rewrites = 0;
    double penalty = -1;
    double goal_reward = 1;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params {
    int oracle;           // o
    int corridor_length;  // L
    float step_penalty;   // of every step except the last at which x < t - o
    float goal_reward;
    bool full_state;
    int rewrites;  // k
  };

  enum Oracle : std::uint8_t { kUnseen = 0, kShown = 1, kSeen = 2 };

  struct State {
    std::int32_t t;  // steps so far
    std::int32_t x;
    std::int8_t y;
    std::int8_t goal_y;  // +1 or -1
    Oracle oracle;       // kShown: the observation of this moment holds the goal
    bool solved;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {params.full_state ? 5 : 2}; }
  static int max_episode_steps(const Params& params) { return num_steps(params); }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) { return start(params, draw_goal(rng)); }

  // The state in which an episode with this goal begins.
  HOST_DEVICE static constexpr State start(const Params& params, int goal_y) {
    State state{};
    state.x = params.oracle;
    state.goal_y = static_cast<std::int8_t>(goal_y);
    state.oracle = state.x == 0 ? kShown : kUnseen;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    ++state.t;
    const int before = state.x;
    const int x = state.x + (action == 0) - (action == 2);
    const int y = state.y + (action == 1) - (action == 3);
    const int end = junction(params);
    const bool open = x >= 0 && x <= end && (y == 0 || (x == end && y >= -1 && y <= 1));
    if (open) {
      state.x = x;
      state.y = static_cast<std::int8_t>(y);
    }
    state.oracle = state.oracle != kUnseen ? kSeen : state.x == 0 ? kShown : kUnseen;
    if (state.x != before && rewrites_at(params, state.x)) {
      state.goal_y = static_cast<std::int8_t>(draw_goal(rng));
      state.oracle = kShown;
    }
    if (state.t < num_steps(params)) return {late(params, state) ? params.step_penalty : 0.0f, End::kNone};
    const float reward = state.y == state.goal_y ? params.goal_reward : 0.0f;
    state.solved = reward > 0;
    return {reward, End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    const bool at_end = state.x == junction(params);
    out[0] = at_end ? 1.0f : 0.0f;
    out[1] = at_end ? static_cast<float>(state.y) : state.oracle == kShown ? static_cast<float>(state.goal_y) : 0.0f;
    if (!params.full_state) return;
    out[2] = static_cast<float>(state.goal_y);
    out[3] = static_cast<float>(state.x) / static_cast<float>(junction(params));
    out[4] = late(params, state) ? 1.0f : 0.0f;
  }

  // Three rows: y = +1, 0 and -1. The goals are drawn from the start: the right one green, the other red.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // The goal's side, once the oracle has shown it.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether the episode ended at one of the goals.
  static bool decided(const Params& params, const State& state) { return state.t >= num_steps(params) && state.y != 0; }

 private:
  HOST_DEVICE static constexpr int draw_goal(Rng& rng) { return rng.below(2) == 1 ? 1 : -1; }
  // Whether the sign is shown anew at x: whether it is the place of an i from 1 to k. The least i of a place at x or
  // beyond it is (x - o) (k + 1) / L, rounded up.
  HOST_DEVICE static constexpr bool rewrites_at(const Params& params, int x) {
    const std::int64_t parts = params.rewrites + 1, length = params.corridor_length, walked = x - params.oracle;
    if (params.rewrites == 0 || walked <= 0) return false;
    const std::int64_t i = (walked * parts + length - 1) / length;
    return i <= params.rewrites && i * length / parts == walked;
  }
  HOST_DEVICE static constexpr int num_steps(const Params& params) {
    return params.corridor_length + 2 * params.oracle + 1;
  }
  HOST_DEVICE static constexpr int junction(const Params& params) { return params.oracle + params.corridor_length; }
  // Whether the agent lags behind one that has always walked ahead, or in the active form first to the oracle.
  HOST_DEVICE static constexpr bool late(const Params& params, const State& state) {
    return state.x < state.t - params.oracle;
  }
};

static_assert(GridTask<TMaze>);

}  // namespace engram
