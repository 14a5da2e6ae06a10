// MiniGrid's DoorKey: take the key, unlock the door in the wall, go to the goal.
//
//   #####        size 5: K the key and D the locked door, G the goal in the corner. The wall stands in any column that
//   #K# #        leaves cells on both sides, the door in any of its rows but the last one. The agent and the key are
//   #>D #        anywhere to the left of it.
//   # #G#
//   #####
//
// Source: minigrid_view.h (MiniGrid-DoorKey-5x5 to 16x16). Observation: [3, 7, 7] uint8, what minigrid_view.h shows;
// with full_state [3, size, size], the whole maze from above, as the package's FullyObsWrapper: row y, column x, the
// agent as object 10, red, with its direction as state; the upper left corner, always a wall, shows what it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/minigrid/minigrid_view.h"

namespace engram {

struct DoorKey : minigrid::Game {
  static constexpr const char* kName = "door_key";
  static constexpr const char* kDescription = "take a key, unlock the door in a wall, go to the goal behind it";
  static constexpr const char* kMemoryDemand = "where unseen things are";
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = "no guess among equals: key, door and goal are found, not chosen";
  static constexpr int kMinSize = 5, kMaxSize = 16;
  static constexpr int kFirstWall = 2, kWallColumns = kMaxSize - 2 - kFirstWall;

  struct Options : Game::Options<DoorKey, 5> {
    void list_options(OptionList& list);
  };

  struct Params : Game::Params {
    minigrid::Walls walls[kWallColumns];  // with the wall in column kFirstWall + i
  };

  struct State {
    minigrid::View view;
    std::int32_t t;  // steps so far
    minigrid::Agent agent;
    std::uint8_t wall_x, door_y;
    minigrid::DoorState door;
    minigrid::Cell key;  // kNowhere while the agent holds it
    bool solved;
  };
  static constexpr std::uint8_t kNowhere = 255;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<ObservationPart> observation_parts(const Params& params) {
    return minigrid::observation_parts(params.observed, shown_side(params));
  }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    const int wall_x = kFirstWall + minigrid::below(params.size - 2 - kFirstWall, rng);
    const int columns = wall_x - 1, cells = columns * (params.size - 2);
    // Two different cells to the left of the wall.
    const int agent_cell = minigrid::below(cells, rng), other_cell = minigrid::below(cells - 1, rng);
    const int key_cell = other_cell + (other_cell >= agent_cell ? 1 : 0);
    minigrid::Agent agent{};
    agent.x = static_cast<std::uint8_t>(1 + agent_cell % columns);
    agent.y = static_cast<std::uint8_t>(1 + agent_cell / columns);
    agent.direction = static_cast<std::uint8_t>(minigrid::below(4, rng));
    const int door_y = 1 + minigrid::below(params.size - 3, rng);
    return start(params, agent, wall_x, door_y, 1 + key_cell % columns, 1 + key_cell / columns);
  }
  // The state in which an episode with this layout begins.
  HOST_DEVICE static State start(const Params& params, minigrid::Agent agent, int wall_x, int door_y, int key_x,
                                 int key_y) {
    State state{};
    state.agent = agent;
    state.wall_x = static_cast<std::uint8_t>(wall_x);
    state.door_y = static_cast<std::uint8_t>(door_y);
    state.door = minigrid::kLocked;
    state.key = {static_cast<std::uint8_t>(key_x), static_cast<std::uint8_t>(key_y)};
    look(params, state);
    return state;
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    const minigrid::Cell front = minigrid::front_of(state.agent);
    const bool at_door = front.x == state.wall_x && front.y == state.door_y;
    const bool at_key = front.x == state.key.x && front.y == state.key.y;
    const bool at_goal = front.x == params.size - 2 && front.y == params.size - 2;
    const bool holds_key = state.key.x == kNowhere;
    const bool empty = !(at_door | at_key | at_goal | walls_of(params, state).at(front.x, front.y));
    minigrid::walk(state.agent, action, front, empty | at_goal | (at_door & (state.door == minigrid::kOpen)));
    if (action == minigrid::kPickUp && at_key) {
      state.key = {kNowhere, kNowhere};
    } else if (action == minigrid::kDrop && holds_key && empty) {
      state.key = front;
    } else if (action == minigrid::kToggle && at_door && (state.door != minigrid::kLocked || holds_key)) {
      state.door = state.door == minigrid::kOpen ? minigrid::kClosed : minigrid::kOpen;
    }
    look(params, state);
    if (action == minigrid::kForward && at_goal) {
      state.solved = true;
      return {minigrid::success_reward(state.t, params.max_steps), End::kTerminated};
    }
    return {0.0f, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    const minigrid::Codes held = state.key.x == kNowhere ? key_codes() : minigrid::nothing();
    if (params.full_state)
      minigrid::show_all(walls_of(params, state), params.size, state.agent, items_of(params, state).item, held,
                         params.scale, out);
    else
      minigrid::show(state.view, items_of(params, state).item, held, params.scale, out);
    minigrid::show_direction(params.observed, state.agent, shown_side(params) * shown_side(params), out);
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static ShownObservation shown(const Params& params, const Element* observation);
  static std::vector<TaskPreset> presets();

 private:
  HOST_DEVICE static constexpr int shown_side(const Params& params) {
    return params.full_state ? params.size : minigrid::kView;
  }
  struct Items {
    minigrid::Item item[3];  // key, door, goal
  };

  HOST_DEVICE static constexpr minigrid::Codes key_codes() { return {minigrid::kKey, minigrid::kYellow, 0}; }
  HOST_DEVICE static Items items_of(const Params& params, const State& state) {
    const auto corner = static_cast<std::uint8_t>(params.size - 2);
    return {{{key_codes(), state.key.x, state.key.y},
             {{minigrid::kDoor, minigrid::kYellow, state.door}, state.wall_x, state.door_y},
             {{minigrid::kGoal, minigrid::kGreen, 0}, corner, corner}}};
  }
  HOST_DEVICE static const minigrid::Walls& walls_of(const Params& params, const State& state) {
    return params.walls[state.wall_x - kFirstWall];
  }
  HOST_DEVICE static void look(const Params& params, State& state) {
    state.view = minigrid::see(walls_of(params, state), state.agent, items_of(params, state).item);
  }
};

static_assert(GridTask<DoorKey>);

}  // namespace engram
