// Visual match: see a colour, collect apples for a while, then step on the square of that colour.
//
// Phase 1 (explore) shows a coloured cell, phase 2 (distractor) is a room of apples, phase 3 (reward) has three
// coloured squares of which one matches. An episode always lasts the sum of the three phases.
// Source: Hung et al., "Optimizing agent behavior over long time scales by transporting value", 2019, in the form of
// Memory-RL (Ni et al., "When do Transformers shine in RL?", 2023). Observation: [3, 5, 5] uint8, the crop of board.h;
// with full_state the player's own colour tells which of the three places is the right square's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/memory_rl/board.h"

namespace engram {

// Which square has which colour. kEpisode: drawn anew every episode. kFixed: drawn once for a run, the same in training
// and evaluation. kReference: training and evaluation each draw one for the run, as in the reference implementation;
// the two agree in 1 of 6 runs.
enum class SquareColours { kEpisode, kFixed, kReference };

struct VisualMatch : board::Game {
  static constexpr const char* kName = "visual_match";
  static constexpr const char* kDescription = "see a colour, collect apples, then step on the square of that colour";
  static constexpr const char* kMemoryDemand = "a colour shown at first";
  static constexpr const char* kSource =
      "Hung et al., Optimizing agent behavior over long time scales by transporting value, 2019, in the form of "
      "Memory-RL (Ni et al., When do Transformers shine in RL?, NeurIPS 2023)";
  static constexpr std::optional<double> kChanceSuccess = 1.0 / 3;
  static constexpr const char* kChanceSource = "one of three squares, the right one drawn with even odds";
  static constexpr int kSquares = 3;
  static constexpr int kAssignments = 6;  // ways to give three squares three colours

  struct Options : board::Options {
    using Task = VisualMatch;

    bool active = false;
    SquareColours colours = SquareColours::kEpisode;

    void list_options(OptionList& list);
  };

  struct Params {
    board::Params board;
    board::CellList signal_cells;  // where phase 1 may show the colour
    board::Cell square[kSquares];
    Rgb square_colour[kAssignments][kSquares];
    SquareColours colours;
    std::uint8_t run_assignment;  // for kFixed and kReference
    bool full_state;
  };

  struct State {
    board::State board;
    std::uint8_t target;      // the square that pays, 0 .. 2
    std::uint8_t assignment;  // a row of square_colour
    board::Cell signal;       // the coloured cell of phase 1
    bool squares_gone;
    bool solved;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  // Of kFixed the colours, of kReference those of training, those of evaluation and whether they agree: the squares
  // from left to right.
  static std::vector<RunFact> run_facts(const Options& options, std::uint64_t seed);

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    State state{};
    state.board.player = board::draw_cell(params.board.starts[board::kExplore], rng);
    state.signal = board::draw_cell(params.signal_cells, rng);
    state.target = static_cast<std::uint8_t>(rng.below(kSquares));
    state.assignment = params.colours == SquareColours::kEpisode ? static_cast<std::uint8_t>(rng.below(kAssignments))
                                                                 : params.run_assignment;
    state.board.apples = board::draw_apples(params.board, rng);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    board::State& board = state.board;
    ++board.frame;
    const board::Target target = board::target_of(board.player, action);
    board::move_to(board, target, board::is_open(params.board.map[board.phase], target.row, target.column));
    float reward = 0;
    if (board.phase == board::kDistractor) {
      reward = board::update_apples(params.board, board);
    } else if (board.phase == board::kReward && !state.squares_gone) {
      for (int i = 0; i < kSquares; ++i) {
        if (!board::same(board.player, params.square[i])) continue;
        state.squares_gone = true;
        if (i != state.target) continue;
        reward = params.board.final_reward;
        state.solved = reward > 0;
      }
    }
    return {reward, board::end_phase(params.board, board, params.board.starts[board::kReward].cell[0])};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    board::observe_map(params.board, state.board, out);
    if (params.full_state) board::paint(state.board, state.board.player, place_colour(params, state), out);
    if (state.board.phase == board::kExplore) {
      board::paint(state.board, state.signal, target_colour(params, state), out);
    } else if (state.board.phase == board::kReward && !state.squares_gone) {
      for (int i = 0; i < kSquares; ++i)
        board::paint(state.board, params.square[i], params.square_colour[state.assignment][i], out);
    }
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::vector<TaskPreset> presets();
  // The colour to match, once phase 1 has shown it.
  static std::optional<Cue> cue(const Params& params, const State& state);
  // Whether a square was entered.
  static bool decided(const Params&, const State& state) { return state.squares_gone; }

  // The state in which a written level begins; its maps and colours replace those of `params`. `target` is the right
  // square's character, b, c or e. Throws UserError for a level that breaks the form of the task's maps.
  static State set_level(Params& params, const board::Level& level, char target);

 private:
  HOST_DEVICE static constexpr Rgb target_colour(const Params& params, const State& state) {
    return params.square_colour[state.assignment][state.target];
  }
  // A colour for each place, whatever the squares' colours: knowing only those leaves a search, which needs memory.
  HOST_DEVICE static constexpr Rgb place_colour(const Params& params, const State& state) {
    return params.square_colour[0][state.target];
  }
};

static_assert(GridTask<VisualMatch>);

}  // namespace engram
