// Dark key-to-door: find a key and then a door in cells that look like any other, and go there again in every further
// attempt.
//
// Source: dark.h. Observation: [4] float: row and column of the agent as shares of the size, whether it has the key,
// the share of the attempt's time; with full_state behind them row and column of the door, those of the key, and how
// each action moves where that is random.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/dark_rooms/dark.h"

namespace engram {

struct DarkKeyToDoor : dark::Game {
  static constexpr const char* kName = "dark_key_to_door";
  static constexpr const char* kDescription = "find a key and a door in the dark, then go there again and again";
  static constexpr const char* kMemoryDemand = "two places found earlier";

  struct Options : dark::RoomOptions {
    using Task = DarkKeyToDoor;

    void list_options(OptionList& list) { RoomOptions::list(list); }
  };

  // What its attempts find is the door, with the key.
  struct State : Game::State {
    dark::Cell key, door;
    bool has_key;
  };

  static Params make_params(const Options& options, std::uint64_t, Purpose) { return {dark::room_of(options)}; }
  static std::vector<std::int64_t> observation_shape(const Params& params) { return {dark::elements(params.room, 2)}; }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    const dark::Attempts attempts = dark::begin_random(params.room, rng);
    const dark::Cell key = dark::random_cell(params.room, rng);
    return {{attempts}, key, dark::random_cell(params.room, rng), false};
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng&) {
    dark::Attempts& attempts = state.attempts;
    float reward = 0;
    if (!dark::move(params.room, attempts, action)) {
      state.has_key = false;
    } else {
      attempts.found = state.has_key && attempts.player == state.door;
      const bool takes_key = !state.has_key && attempts.player == state.key;
      state.has_key |= takes_key;
      reward = attempts.found || takes_key ? 1.0f : 0.0f;
      dark::conclude(attempts, attempts.found || dark::out_of_time(params.room, attempts));
    }
    return {reward, dark::end_of(params.room, attempts)};
  }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    out += dark::observe(params.room, state.attempts, state.has_key, out);
    if (!params.room.full_state) return;
    out[0] = dark::share(state.door.x, params.room.size);
    out[1] = dark::share(state.door.y, params.room.size);
    out[2] = dark::share(state.key.x, params.room.size);
    out[3] = dark::share(state.key.y, params.room.size);
    dark::observe_directions(params.room, state.attempts, out + 4);
  }

  // The room from above: the start, the door, the key until it is taken, the agent.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<DarkKeyToDoor>);

}  // namespace engram
