// MiniGrid's RedBlueDoors: open the red door, then the blue one, at opposite ends of a room.
//
//   ############        size 6: a room of 4 x 4 cells; R, B: the doors, anywhere in its left and right wall. Beyond
//   #  #    #  #        them there is space where nothing is.
//   #  R    #  #
//   #  # >  B  #
//   #  #    #  #
//   ############
//
// Opening the blue door ends the episode: with success if the red one was open before. Source: minigrid_view.h
// (MiniGrid-RedBlueDoors-6x6 and 8x8). Observation: [3, 7, 7] uint8, what minigrid_view.h shows; with full_state the
// agent sees itself holding the red door, open or closed as it is.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/minigrid/minigrid_view.h"

namespace engram {

struct RedBlueDoors : minigrid::Game {
  static constexpr const char* kName = "red_blue_doors";
  static constexpr const char* kDescription = "open the red door, then the blue one at the other end of a room";
  static constexpr const char* kMemoryDemand = "whether a door was opened";
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = "no guess among equals: the doors are told apart by their colours";
  static constexpr int kMinSize = 4, kMaxSize = 8;

  struct Options : Game::Options<RedBlueDoors, 6> {
    void list_options(OptionList& list);
  };

  struct Params : Game::Params {
    minigrid::Walls walls;
  };

  struct State {
    minigrid::View view;
    std::int32_t t;  // steps so far
    minigrid::Agent agent;
    std::uint8_t red_y, blue_y;
    bool red_open, blue_open;
    bool red_seen;
    bool solved;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    const int inside = params.size - 2;
    minigrid::Agent agent{};
    agent.x = static_cast<std::uint8_t>(params.size / 2 + 1 + minigrid::below(inside, rng));
    agent.y = static_cast<std::uint8_t>(1 + minigrid::below(inside, rng));
    agent.direction = static_cast<std::uint8_t>(minigrid::below(4, rng));
    const int red_y = 1 + minigrid::below(inside, rng), blue_y = 1 + minigrid::below(inside, rng);
    return start(params, agent, red_y, blue_y);
  }
  // The state in which an episode with this layout begins.
  HOST_DEVICE static State start(const Params& params, minigrid::Agent agent, int red_y, int blue_y) {
    State state{};
    state.agent = agent;
    state.red_y = static_cast<std::uint8_t>(red_y);
    state.blue_y = static_cast<std::uint8_t>(blue_y);
    look(params, state);
    return state;
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    const minigrid::Cell front = minigrid::front_of(state.agent);
    const bool at_red = front.x == red_x(params) && front.y == state.red_y;
    const bool at_blue = front.x == blue_x(params) && front.y == state.blue_y;
    const bool red_was_open = state.red_open;
    if (action == minigrid::kToggle) {
      state.red_open ^= at_red;
      state.blue_open ^= at_blue;
    }
    const bool free = at_red ? state.red_open : at_blue ? state.blue_open : !params.walls.at(front.x, front.y);
    minigrid::walk(state.agent, action, front, free);
    look(params, state);
    if (state.blue_open) {
      state.solved = red_was_open;
      return {red_was_open ? minigrid::success_reward(state.t, params.max_steps) : 0.0f, End::kTerminated};
    }
    return {0.0f, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    const Items items = items_of(params, state);
    minigrid::show(state.view, items.item, params.full_state ? items.item[0].codes : minigrid::nothing(), params.scale,
                   out);
    minigrid::show_direction(params.observed, state.agent, minigrid::kView * minigrid::kView, out);
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<TaskPreset> presets();
  // Whether the red door is open, once it was seen and while it is out of sight.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether the blue door was opened.
  static bool decided(const Params&, const State& state) { return state.blue_open; }

 private:
  struct Items {
    minigrid::Item item[2];  // the red and the blue door
  };

  HOST_DEVICE static constexpr std::uint8_t red_x(const Params& params) {
    return static_cast<std::uint8_t>(params.size / 2);
  }
  HOST_DEVICE static constexpr std::uint8_t blue_x(const Params& params) {
    return static_cast<std::uint8_t>(params.size / 2 + params.size - 1);
  }
  HOST_DEVICE static constexpr minigrid::Codes door(minigrid::Colour colour, bool open) {
    return {minigrid::kDoor, colour, static_cast<std::uint8_t>(open ? minigrid::kOpen : minigrid::kClosed)};
  }
  HOST_DEVICE static Items items_of(const Params& params, const State& state) {
    return {{{door(minigrid::kRed, state.red_open), red_x(params), state.red_y},
             {door(minigrid::kBlue, state.blue_open), blue_x(params), state.blue_y}}};
  }
  HOST_DEVICE static void look(const Params& params, State& state) {
    state.view = minigrid::see(params.walls, state.agent, items_of(params, state).item);
    state.red_seen |= state.view.sees_item(0);
  }
};

static_assert(GridTask<RedBlueDoors>);

}  // namespace engram
