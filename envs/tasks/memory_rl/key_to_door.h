// Key-to-door: find a key, collect apples for a while, then open the door that only the key opens.
//
// Phase 1 (explore) has the key, phase 2 (distractor) apples, phase 3 (reward) the door. An episode always lasts the
// sum of the three phases. Variant sr has a fixed door and start in phase 3; cca draws both (Memory-RL's two reward
// maps). Source: Raposo et al., "Synthetic returns for long-term credit assignment", 2021, in the form of Memory-RL (Ni
// et al., "When do Transformers shine in RL?", 2023). Observation: [3, 5, 5] uint8, the crop of board.h; with
// full_state a player that has the key wears its colour.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/memory_rl/board.h"

namespace engram {

enum class DoorVariant { kSr, kCca };

struct KeyToDoor : board::Game {
  static constexpr const char* kName = "key_to_door";
  static constexpr const char* kDescription = "find a key, collect apples, then open the door that needs the key";
  static constexpr const char* kMemoryDemand = "a key taken long before";
  static constexpr const char* kSource =
      "Raposo et al., Synthetic returns for long-term credit assignment, 2021, in the form of Memory-RL (Ni et al., "
      "When do Transformers shine in RL?, NeurIPS 2023)";
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = "no guess among equals: key and door are found, not chosen";

  struct Options : board::Options {
    using Task = KeyToDoor;

    DoorVariant variant = DoorVariant::kSr;

    Options() {
      reward_steps = 10;
      final_reward = 5;
    }
    void list_options(OptionList& list);
  };

  struct Params {
    board::Params board;
    board::CellList key_cells;
    board::CellList door_cells;
    bool full_state;
  };

  struct State {
    board::State board;
    board::Cell key, door, reward_start;
    bool key_taken;
    bool indicator;  // shown, and in the way, until the next step
    bool has_key;
    bool door_opened;  // an opened door lets the player pass without the key
    bool solved;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    State state{};
    state.board.player = board::draw_cell(params.board.starts[board::kExplore], rng);
    state.key = board::draw_cell(params.key_cells, rng);
    state.door = board::draw_cell(params.door_cells, rng);
    state.reward_start = board::draw_cell(params.board.starts[board::kReward], rng);
    state.board.apples = board::draw_apples(params.board, rng);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    board::State& board = state.board;
    ++board.frame;
    const board::Target target = board::target_of(board.player, action);
    bool open = board::is_open(params.board.map[board.phase], target.row, target.column);
    if (board.phase == board::kExplore && state.indicator) open = open && !is_cell(target, indicator_cell());
    if (board.phase == board::kReward && !state.has_key && !state.door_opened)
      open = open && !is_cell(target, state.door);
    board::move_to(board, target, open);

    float reward = 0;
    if (board.phase == board::kExplore) {
      state.indicator = !state.key_taken && board::same(board.player, state.key);
      state.key_taken = state.key_taken || state.indicator;
      state.has_key = state.key_taken;
    } else if (board.phase == board::kDistractor) {
      reward = board::update_apples(params.board, board);
    } else if (state.has_key && board::same(board.player, state.door)) {
      reward = params.board.final_reward;
      state.solved = reward > 0;
      state.door_opened = true;
      state.has_key = false;
    }
    return {reward, board::end_phase(params.board, board, state.reward_start)};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    board::observe_map(params.board, state.board, out);
    if (params.full_state && state.has_key)
      board::paint(state.board, state.board.player, params.board.palette.key, out);
    if (state.board.phase == board::kExplore) {
      if (!state.key_taken) board::paint(state.board, state.key, params.board.palette.key, out);
      if (state.indicator) board::paint(state.board, indicator_cell(), params.board.palette.indicator, out);
    } else if (state.board.phase == board::kReward) {
      board::paint(state.board, state.door, params.board.palette.door, out);  // over the player
    }
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::vector<TaskPreset> presets();
  // Whether it took the key, once phase 1 is over.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether the door was opened, which takes the key: there is no wrong decision.
  static bool decided(const Params&, const State& state) { return state.door_opened; }

  // The state in which a written level begins; its maps and colours replace those of `params`. Throws UserError for a
  // level that breaks the form of the task's maps.
  static State set_level(Params& params, const board::Level& level);

 private:
  // Lights up for the frame in which the key is taken.
  HOST_DEVICE static constexpr board::Cell indicator_cell() { return {0, 5}; }
  HOST_DEVICE static constexpr bool is_cell(board::Target target, board::Cell cell) {
    return target.row == cell.row && target.column == cell.column;
  }
};

static_assert(GridTask<KeyToDoor>);

}  // namespace engram
