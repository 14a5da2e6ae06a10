#include "envs/tasks/memory_rl/visual_match.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"
#include "envs/tasks/memory_rl/memory_rl.h"

namespace engram {
namespace {

constexpr const char* kSquareNames = "bce";
constexpr const char* kPaletteNames[] = {"red", "green", "blue"};  // of the standard palette's squares

// The six ways to colour the squares, by the palette's places; the first gives them the palette's order.
constexpr int kColours[VisualMatch::kAssignments][VisualMatch::kSquares] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                                                            {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};

const board::Text& passive_text() {
  static const board::Text text = {
      "           ",  //
      "    ppp    ",  //
      "    p+p    ",  //
      "    ppp    ",  //
      "           ",  //
      "           ",  //
      "           ",
  };
  return text;
}

const board::Text& active_text() {
  static const board::Text text = {
      "  ppppppp  ",  //
      "  p     p  ",  //
      "  p     p  ",  //
      "  pp   pp  ",  //
      "  p+++++p  ",  //
      "  p+++++p  ",  //
      "  ppppppp  ",
  };
  return text;
}

const board::Text& reward_text() {
  static const board::Text text = {
      "###########",  //
      "# b  c  e #",  //
      "#         #",  //
      "#         #",  //
      "####   ####",  //
      "   # + #   ",  //
      "   #####   ",
  };
  return text;
}

// The reward phase's map and its squares' colours.
void set_squares(VisualMatch::Params& params, const board::Text& text) {
  for (int assignment = 0; assignment < VisualMatch::kAssignments; ++assignment)
    for (int i = 0; i < VisualMatch::kSquares; ++i)
      params.square_colour[assignment][i] = params.board.palette.square[kColours[assignment][i]];

  board::set_map(params.board, board::kReward, text, "#");
  for (int i = 0; i < VisualMatch::kSquares; ++i)
    params.square[i] = board::find_only_cell(text, kSquareNames[i], board::kReward);
}

std::uint8_t draw_run_assignment(SquareColours colours, std::uint64_t seed, Purpose purpose) {
  const bool own = colours == SquareColours::kReference && purpose == Purpose::kEvaluation;
  Rng rng(seed, own ? Purpose::kRunTaskEvaluation : Purpose::kRunTask, 0, 0);
  return static_cast<std::uint8_t>(rng.below(VisualMatch::kAssignments));
}

std::string colours_text(std::uint8_t assignment) {
  std::string text;
  for (const int colour : kColours[assignment]) text += (text.empty() ? "" : ", ") + std::string(kPaletteNames[colour]);
  return text;
}

}  // namespace

void VisualMatch::Options::list_options(OptionList& list) {
  list.add("active", active, "false: the colour is shown at once; true: it has to be found in a room");
  list_phases(list, {"the colour is shown", "before the three squares", "the square of the right colour"});
  list.add(
      "colours", colours,
      {{SquareColours::kEpisode, "episode"},
       {SquareColours::kFixed, "fixed"},
       {SquareColours::kReference, "reference"}},
      "which square has which colour: drawn every episode; once for training and evaluation; once for each of them");
  list_full_state(list, full_state);
}

VisualMatch::Params VisualMatch::make_params(const Options& options, std::uint64_t seed, Purpose purpose) {
  Params params{};
  board::set_options(params.board, options);
  params.colours = options.colours;
  params.full_state = options.full_state;
  params.run_assignment = draw_run_assignment(options.colours, seed, purpose);

  const board::Text& explore = options.active ? active_text() : passive_text();
  board::set_map(params.board, board::kExplore, explore, "p");
  params.signal_cells = board::find_cells(explore, 'p');
  board::set_apple_map(params.board, board::apple_text());
  set_squares(params, reward_text());
  return params;
}

std::vector<RunFact> VisualMatch::run_facts(const Options& options, std::uint64_t seed) {
  if (options.colours == SquareColours::kEpisode) return {};
  const std::uint8_t training = draw_run_assignment(options.colours, seed, Purpose::kTraining);
  if (options.colours == SquareColours::kFixed) return {{"colours", colours_text(training)}};
  const std::uint8_t evaluation = draw_run_assignment(options.colours, seed, Purpose::kEvaluation);
  return {{"training_colours", colours_text(training)},
          {"evaluation_colours", colours_text(evaluation)},
          {"colours_agree", training == evaluation ? "yes" : "no"}};
}

void VisualMatch::draw(const Params& params, const State& state, Canvas& canvas) {
  board::draw_map(params.board, state.board, canvas);
  const board::Cell player = state.board.player;
  if (params.full_state) canvas.set(player.row, player.column, place_colour(params, state));
  if (state.board.phase == board::kExplore)
    canvas.set(state.signal.row, state.signal.column, target_colour(params, state));
  if (state.board.phase == board::kReward && !state.squares_gone)
    for (int i = 0; i < kSquares; ++i)
      canvas.set(params.square[i].row, params.square[i].column, params.square_colour[state.assignment][i]);
}

std::vector<ColourMeaning> VisualMatch::colours(const Params& params) {
  std::vector<ColourMeaning> colours = board::colours(params.board.palette);
  // Of the signal and of squares.
  for (int i = 0; i < kSquares; ++i)
    colours.push_back({kPaletteNames[i][0], params.board.palette.square[i], kPaletteNames[i]});
  return colours;
}

std::optional<Cue> VisualMatch::cue(const Params& params, const State& state) {
  if (params.full_state || state.board.phase == board::kExplore) return {};
  return Cue{"target", target_colour(params, state)};
}

VisualMatch::State VisualMatch::set_level(Params& params, const board::Level& level, char target) {
  const std::string squares = kSquareNames;
  const std::size_t target_index = squares.find(target);
  if (target_index == std::string::npos)
    throw UserError(std::string("target '") + target + "' is not one of the squares b, c, e");
  board::check_map(level, board::kExplore, std::string("# +") + target);
  board::check_map(level, board::kDistractor, "# +a");
  board::check_map(level, board::kReward, "# +bce");
  for (const board::Phase phase : {board::kExplore, board::kDistractor, board::kReward})
    board::find_only_cell(level.maps[phase], '+', phase);

  params.board.palette = level.palette;
  board::set_map(params.board, board::kExplore, level.maps[board::kExplore], std::string("#") + target);
  board::set_apple_map(params.board, level.maps[board::kDistractor]);
  set_squares(params, level.maps[board::kReward]);

  State state{};
  state.board = board::state_of_level(params.board);
  state.target = static_cast<std::uint8_t>(target_index);
  state.signal = board::find_only_cell(level.maps[board::kExplore], target, board::kExplore);
  return state;
}

std::vector<TaskPreset> VisualMatch::presets() {
  std::vector<TaskPreset> presets = {
      {"visual_match_hqlt",
       kName,
       {{"explore_steps", "15"}, {"distractor_steps", "750"}, {"reward_steps", "15"}, {"final_reward", "100"}},
       "Irie et al., Blending complementary memory systems in hybrid quadratic-linear Transformers, 2025, figure 2"}};
  for (const char* steps : {"60", "120", "250", "500", "750", "1000"})
    presets.push_back({std::string("visual_match_") + steps,
                       kName,
                       {{"distractor_steps", steps}, {"final_reward", "10"}},
                       kMemoryRlSource});
  return presets;
}

template TaskEntry task_entry<VisualMatch>();

}  // namespace engram
