// MiniGrid's Memory: an object in the room where a hall begins, two at its end; go to the one that was in the room.
//
//   #############        K: the object to remember, a green key or ball, in the room
//   #        # U#        U, L: the two objects at the ends of a passage across the end of the hall, a key and a ball
//   #        # s#        s: stepping here, or on its counterpart below, ends the episode
//   #        # .#
//   ######## # .#
//   ...
//
// The agent starts anywhere between the room's far wall and the hall's end and looks down the hall. Source:
// minigrid_view.h (MiniGrid-MemoryS7 to S17Random). Observation: [3, 7, 7] uint8, what minigrid_view.h shows; with
// full_state the agent sees itself holding the object to remember.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/minigrid/minigrid_view.h"

namespace engram {

struct MiniGridMemory : minigrid::Game {
  static constexpr const char* kName = "minigrid_memory";
  static constexpr const char* kDescription = "see an object in a room, then go to its like at the end of a hall";
  static constexpr const char* kMemoryDemand = "an object seen in a room";
  static constexpr std::optional<double> kChanceSuccess = 0.5;
  static constexpr const char* kChanceSource = "one of two objects, the right one drawn with even odds";
  static constexpr int kMinSize = 7, kMaxSize = minigrid::kMaxSide;  // odd
  static constexpr int kFirstHallEnd = 4;                            // the nearest column at which a hall can end
  static constexpr int kHallEnds = kMaxSize - 2 - kFirstHallEnd;

  struct Options : Game::Options<MiniGridMemory, 7> {
    bool random_length = false;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params : Game::Params {
    minigrid::Walls walls[kHallEnds];  // of a hall that ends at column kFirstHallEnd + i
    bool random_length;
  };

  enum Choice : std::uint8_t { kNone = 0, kWrong = 1, kRight = 2 };

  struct State {
    minigrid::View view;
    std::int32_t t;  // steps so far
    minigrid::Agent agent;
    std::uint8_t hall_end;  // column
    std::uint8_t object;    // the one to remember, minigrid::kKey or kBall
    std::uint8_t upper;     // the one at the upper end of the passage; the other is at the lower end
    bool object_seen;
    Choice choice;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    const int longest = params.size - 3;
    const int hall_end =
        !params.random_length ? longest : kFirstHallEnd + minigrid::below(longest - kFirstHallEnd + 1, rng);
    const int x = 1 + minigrid::below(hall_end, rng);
    const bool is_key = rng.below(2) == 0, upper_is_key = rng.below(2) == 0;
    return start(params, hall_end, x, is_key, upper_is_key);
  }
  // The state in which an episode with this layout begins; the agent stands in column x.
  HOST_DEVICE static State start(const Params& params, int hall_end, int x, bool is_key, bool upper_is_key) {
    State state{};
    state.agent = {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(params.size / 2), 0};
    state.hall_end = static_cast<std::uint8_t>(hall_end);
    state.object = is_key ? minigrid::kKey : minigrid::kBall;
    state.upper = upper_is_key ? minigrid::kKey : minigrid::kBall;
    look(params, state, items_of(params, state));
    return state;
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    const Items items = items_of(params, state);
    const minigrid::Cell front = minigrid::front_of(state.agent);
    bool free = !walls_of(params, state).at(front.x, front.y);
    for (const minigrid::Item& item : items.item) free &= (item.x != front.x) | (item.y != front.y);
    minigrid::walk(state.agent, action, front, free);
    if (action <= minigrid::kForward) look(params, state, items);  // nothing else changes what is seen

    // The cells before the two objects.
    const int middle = params.size / 2, off_middle = state.agent.y - middle;
    if (state.agent.x == state.hall_end + 1 && (off_middle == -1 || off_middle == 1)) {
      state.choice = (off_middle == -1) == (state.object == state.upper) ? kRight : kWrong;
      const bool right = state.choice == kRight;
      return {right ? minigrid::success_reward(state.t, params.max_steps) : 0.0f, End::kTerminated};
    }
    return {0.0f, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static bool success(const Params&, const State& state) { return state.choice == kRight; }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    const minigrid::Codes held = params.full_state ? codes_of(state.object) : minigrid::nothing();
    minigrid::show(state.view, items_of(params, state).item, held, params.scale, out);
    minigrid::show_direction(params.observed, state.agent, minigrid::kView * minigrid::kView, out);
  }

  // The object to remember and the two to choose from, as minigrid::draw paints items.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<TaskPreset> presets();
  // The object in the room, once it was seen and while it is out of sight.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether the agent went to one of the two objects.
  static bool decided(const Params&, const State& state) { return state.choice != kNone; }

 private:
  struct Items {
    minigrid::Item item[3];  // the first is the one to remember
  };

  HOST_DEVICE static constexpr minigrid::Codes codes_of(std::uint8_t object) { return {object, minigrid::kGreen, 0}; }
  HOST_DEVICE static Items items_of(const Params& params, const State& state) {
    const auto middle = static_cast<std::uint8_t>(params.size / 2);
    const auto column = static_cast<std::uint8_t>(state.hall_end + 1);
    const auto lower = static_cast<std::uint8_t>(minigrid::kKey + minigrid::kBall - state.upper);
    return {{{codes_of(state.object), 1, static_cast<std::uint8_t>(middle - 1)},
             {codes_of(state.upper), column, static_cast<std::uint8_t>(middle - 2)},
             {codes_of(lower), column, static_cast<std::uint8_t>(middle + 2)}}};
  }
  HOST_DEVICE static const minigrid::Walls& walls_of(const Params& params, const State& state) {
    return params.walls[state.hall_end - kFirstHallEnd];
  }
  HOST_DEVICE static void look(const Params& params, State& state, const Items& items) {
    state.view = minigrid::see(walls_of(params, state), state.agent, items.item);
    state.object_seen |= state.view.sees_item(0);
  }
};

static_assert(GridTask<MiniGridMemory>);

}  // namespace engram
