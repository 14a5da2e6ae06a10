// Dark room: find a cell that looks like any other, and go there again in every further attempt.
//
// Source: dark.h (Dark Room, and Dark Room Hard with pays_once). Observation: [4] float: row and column of the agent as
// shares of the size, whether this attempt has reached the goal, the share of the attempt's time; with full_state
// behind them row and column of the goal, and how each action moves where that is random.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/dark_rooms/dark.h"

namespace engram {

struct DarkRoom : dark::Game {
  static constexpr const char* kName = "dark_room";
  static constexpr const char* kDescription = "find a cell in the dark, then go there again and again";
  static constexpr const char* kMemoryDemand = "a place found earlier";

  struct Options : dark::RoomOptions {
    using Task = DarkRoom;

    bool pays_once = false;

    Options();
    void list_options(OptionList& list);
  };

  struct Params : Game::Params {
    bool pays_once;
  };

  struct State : Game::State {
    dark::Cell goal;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {dark::elements(params.room, 1)}; }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    const dark::Attempts attempts = dark::begin_random(params.room, rng);
    return {{attempts}, dark::random_cell(params.room, rng)};
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng&) {
    dark::Attempts& attempts = state.attempts;
    float reward = 0;
    if (dark::move(params.room, attempts, action)) {
      const bool at_goal = attempts.player == state.goal;
      reward = at_goal && !(params.pays_once && attempts.found) ? 1.0f : 0.0f;
      attempts.found |= at_goal;
      dark::conclude(attempts, dark::out_of_time(params.room, attempts));
    }
    return {reward, dark::end_of(params.room, attempts)};
  }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    out += dark::observe(params.room, state.attempts, state.attempts.found, out);
    if (!params.room.full_state) return;
    out[0] = dark::share(state.goal.x, params.room.size);
    out[1] = dark::share(state.goal.y, params.room.size);
    dark::observe_directions(params.room, state.attempts, out + 2);
  }

  // The room from above: the start, the goal, green once the attempt has reached it, the agent.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<DarkRoom>);

}  // namespace engram
