// Battleship without a board: every action shoots at a square, and all that is seen of it is whether it hit. An episode
// ends when every ship is sunk, or after as many steps as there are squares. Source: cards.h. Observation: [2] float, a
// one-hot code: whether the last shot missed, as one at a square hit before does, or hit. With full_state two bits for
// each square follow: first all that say whether it has a ship, then all that say whether it was shot at.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct Battleship : cards::Game {
  static constexpr const char* kName = "battleship";
  static constexpr const char* kDescription = "sink all ships; the board is not shown";
  static constexpr const char* kMemoryDemand = "shots, and what they hit";
  static constexpr int kMinSize = 6;  // in a smaller one the ships placed first may leave the last one no place
  static constexpr int kMaxSize = 12;
  static constexpr int kMaxSquares = kMaxSize * kMaxSize;
  static constexpr int kNumActions = kMaxSquares;
  static constexpr auto kActionNames = cards::kNumberNames<kNumActions>;
  static constexpr const char* kChanceSource =
      "it depends on the size: shots at random hit all 12 squares in time in 0.3% of the episodes, 0.35% on a large "
      "board";
  static constexpr int kShipSquares = 12;  // of all ships

  struct Options : TaskOptions<Battleship> {
    int size = 8;

    void list_options(OptionList& list);
  };

  struct Params {
    int size;
    float reward[2];  // of a miss and of a hit
    bool full_state;
  };

  using Squares = cards::Pile<1, kMaxSquares>;

  struct State {
    Squares ships, shots;
    std::uint8_t t;     // steps so far
    std::uint8_t hits;  // among them
    bool hit;           // the last one was
  };
  static_assert(kMaxSquares < 256);

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {2 + (params.full_state ? 2 * num_actions(params) : 0)};
  }
  static int max_episode_steps(const Params& params) { return num_actions(params); }
  HOST_DEVICE static constexpr int num_actions(const Params& params) { return params.size * params.size; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    constexpr int kLengths[] = {2, 3, 3, 4};  // in the order in which the ships are placed
    Squares ships{};
    for (const int length : kLengths) place(params.size, length, ships, rng);
    return start(ships);
  }
  // The state in which an episode with these ships begins.
  HOST_DEVICE static constexpr State start(const Squares& ships) {
    State state{};
    state.ships = ships;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    state.hit = (state.ships[action] & ~state.shots[action]) != 0;
    state.shots.set(action, 1);
    state.hits = static_cast<std::uint8_t>(state.hits + state.hit);
    ++state.t;
    // Without a branch: hits are unpredictable.
    return {params.reward[state.hit], state.hits == kShipSquares       ? End::kTerminated
                                      : state.t == num_actions(params) ? End::kTruncated
                                                                       : End::kNone};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.hits == kShipSquares; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out[0] = static_cast<float>(!state.hit);
    out[1] = static_cast<float>(state.hit);
    if (!params.full_state) return;
    out = cards::show_bits(state.ships, num_actions(params), out + 2);
    cards::show_bits(state.shots, num_actions(params), out);
  }

  // The board: ships grey, red where hit; water blue, bright where shot at.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params&, const State&) { return "shoot"; }
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  // Every place along a row or a column where the ship lies on no other has the same odds.
  HOST_DEVICE static constexpr void place(int size, int length, Squares& ships, Rng& rng) {
    for (;;) {
      const int places = size - length + 1;  // along a line
      const int drawn = static_cast<int>(rng.below(static_cast<std::uint32_t>(2 * size * places)));
      const int line = drawn / 2 / places, at = drawn / 2 % places;
      const bool upright = drawn % 2 != 0;
      const int first = upright ? at * size + line : line * size + at, along = upright ? size : 1;
      int taken = 0;
      for (int i = 0; i < length; ++i) taken |= ships[first + i * along];
      if (taken != 0) continue;
      for (int i = 0; i < length; ++i) ships.set(first + i * along, 1);
      return;
    }
  }
};

static_assert(GridTask<Battleship>);

}  // namespace engram
