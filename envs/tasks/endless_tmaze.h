// Endless T-maze: one T-maze after the other; at the start of each a sign tells where to turn at its end, and the signs
// of before no longer count.
//
//                     left
//   sign - - - - - junction            x = 0 .. length, of each corridor
//                     right
//
// Source: Shchendrigin, Cherepanov, Kovalev and Panov, "Memory retention is not enough to master memory tasks in
// reinforcement learning", 2026, after the first author's public code. Observation: [3] float, x / corridor_length and,
// at x = 0 alone, [1, 0] for left or [0, 1] for right. With full_state [5]: these are followed, at every step, by -1
// for left or 1 for right, the corridor's turn, and 1 at the junction, else 0.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram {

// All corridors as long as corridor_length says, or each as long as is drawn for it, 1 .. corridor_length.
enum class CorridorLengths : std::uint8_t { kFixed, kUniform };

struct EndlessTMaze {
  static constexpr const char* kName = "endless_tmaze";
  static constexpr const char* kDescription = "corridor after corridor, turn where the last sign pointed";
  static constexpr const char* kMemoryDemand = "the last of many signs";
  static constexpr const char* kSource =
      "Shchendrigin et al., Memory retention is not enough to master memory tasks in reinforcement learning, 2026";
  static constexpr int kMostCorridors = 1'000, kMostSteps = 10'000;
  static constexpr int kNumActions = 3;
  static constexpr const char* kActionNames[] = {"forward", "left", "right"};
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource =
      "it depends on the number of corridors, n: guessing every turn solves one episode in 2^n";

  struct Options : TaskOptions<EndlessTMaze> {
    int corridors = 5;
    int corridor_length = 10;
    CorridorLengths lengths = CorridorLengths::kFixed;
    double turn_reward = 1;
    double wrong_turn_reward = -1;
    double delay_reward = -0.01;

    void list_options(OptionList& list);
  };

  struct Params {
    std::int32_t corridors;
    std::int32_t corridor_length;  // of the longest
    std::int32_t max_steps;
    float turn_reward, wrong_turn_reward;
    float delay_reward;  // of a turn into a corridor's wall
    CorridorLengths lengths;
    bool full_state;
  };

  struct Corridor {
    std::int32_t length;
    bool right;  // its turn
  };

  struct State {
    std::int32_t t;  // steps so far
    std::int32_t x;
    std::int32_t passed;  // corridors
    Corridor corridor;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {params.full_state ? 5 : 3}; }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) { return start(draw_corridor(params, rng)); }

  // The state in which an episode with this first corridor begins.
  HOST_DEVICE static constexpr State start(Corridor first) {
    State state{};
    state.corridor = first;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    Corridor next{};
    if (turns_rightly(state, action)) next = draw_corridor(params, rng);
    return step_with(params, state, action, next);
  }
  // The step that leads to the corridor `next`, if it leads to another one.
  HOST_DEVICE static constexpr Outcome step_with(const Params& params, State& state, int action, Corridor next) {
    ++state.t;
    bool over = false;
    float reward = 0;
    if (state.x < state.corridor.length) {
      state.x += action == kForward;
      reward = action == kForward ? 0.0f : params.delay_reward;
    } else if (turns_rightly(state, action)) {
      reward = params.turn_reward;
      over = ++state.passed == params.corridors;
      if (!over) {
        state.x = 0;
        state.corridor = next;
      }
    } else {
      reward = params.wrong_turn_reward;
      over = true;
    }
    // As in the original, whatever ends an episode in its last possible step.
    if (state.t >= params.max_steps) return {reward, End::kTruncated};
    return {reward, over ? End::kTerminated : End::kNone};
  }

  // All corridors are passed.
  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return state.passed == params.corridors;
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out[0] = static_cast<float>(state.x) / static_cast<float>(params.corridor_length);
    out[1] = state.x == 0 && !state.corridor.right ? 1.0f : 0.0f;
    out[2] = state.x == 0 && state.corridor.right ? 1.0f : 0.0f;
    if (!params.full_state) return;
    out[3] = state.corridor.right ? 1.0f : -1.0f;
    out[4] = at_junction(state) ? 1.0f : 0.0f;
  }

  // Three rows: left, the corridor, right. The turns are drawn from the start: the right one green, the other red.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // The last sign, once it is out of sight.
  static std::optional<Cue> cue(const Params& params, const State& state);

 private:
  static constexpr int kForward = 0, kLeft = 1, kRight = 2;

  HOST_DEVICE static constexpr Corridor draw_corridor(const Params& params, Rng& rng) {
    Corridor corridor{params.corridor_length, rng.below(2) == 1};
    if (params.lengths == CorridorLengths::kUniform)
      corridor.length = 1 + static_cast<std::int32_t>(rng.below(static_cast<std::uint32_t>(params.corridor_length)));
    return corridor;
  }
  HOST_DEVICE static constexpr bool at_junction(const State& state) { return state.x == state.corridor.length; }
  HOST_DEVICE static constexpr bool turns_rightly(const State& state, int action) {
    return at_junction(state) && action == (state.corridor.right ? kRight : kLeft);
  }
};

static_assert(GridTask<EndlessTMaze>);

}  // namespace engram
