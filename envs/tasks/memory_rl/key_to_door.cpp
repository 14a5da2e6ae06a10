#include "envs/tasks/memory_rl/key_to_door.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"
#include "envs/tasks/memory_rl/memory_rl.h"

namespace engram {
namespace {

const board::Text& explore_text() {
  static const board::Text text = {
      "  #######  ",  //
      "  #kkkkk#  ",  //
      "  #kkkkk#  ",  //
      "  ##   ##  ",  //
      "  #+++++#  ",  //
      "  #+++++#  ",  //
      "  #######  ",
  };
  return text;
}

const board::Text& sr_text() {
  static const board::Text text = {
      "           ",  //
      "   ##d##   ",  //
      "   #   #   ",  //
      "   # + #   ",  //
      "   #   #   ",  //
      "   #####   ",  //
      "           ",
  };
  return text;
}

const board::Text& cca_text() {
  static const board::Text text = {
      "  #######  ",  //
      "  #+++++#  ",  //
      "  #+++++#  ",  //
      "  ##   ##  ",  //
      "  #ddddd#  ",  //
      "  #ddddd#  ",  //
      "  #######  ",
  };
  return text;
}

}  // namespace

void KeyToDoor::Options::list_options(OptionList& list) {
  list.add("variant", variant, {{DoorVariant::kSr, "sr"}, {DoorVariant::kCca, "cca"}},
           "phase 3: a fixed door and start (sr), or both drawn every episode (cca)");
  list_phases(list, {"the key is", "where the door is", "opening the door"});
  list_full_state(list, full_state);
}

KeyToDoor::Params KeyToDoor::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{};
  board::set_options(params.board, options);
  params.full_state = options.full_state;

  const board::Text& reward = options.variant == DoorVariant::kSr ? sr_text() : cca_text();
  board::set_map(params.board, board::kExplore, explore_text(), "#");
  board::set_apple_map(params.board, board::apple_text());
  board::set_map(params.board, board::kReward, reward, "#");
  params.key_cells = board::find_cells(explore_text(), 'k');
  params.door_cells = board::find_cells(reward, 'd');
  return params;
}

void KeyToDoor::draw(const Params& params, const State& state, Canvas& canvas) {
  board::draw_map(params.board, state.board, canvas);
  const board::Cell player = state.board.player;
  if (params.full_state && state.has_key) canvas.set(player.row, player.column, params.board.palette.key);
  if (state.board.phase == board::kExplore) {
    if (!state.key_taken) canvas.set(state.key.row, state.key.column, params.board.palette.key);
    if (state.indicator) canvas.set(indicator_cell().row, indicator_cell().column, params.board.palette.indicator);
  }
  if (state.board.phase == board::kReward) canvas.set(state.door.row, state.door.column, params.board.palette.door);
}

std::vector<ColourMeaning> KeyToDoor::colours(const Params& params) {
  const board::Palette& palette = params.board.palette;
  std::vector<ColourMeaning> colours = board::colours(palette);
  colours.insert(colours.end(),
                 {{'k', palette.key, "key"}, {'d', palette.door, "door"}, {'!', palette.indicator, "key taken"}});
  return colours;
}

std::optional<Cue> KeyToDoor::cue(const Params& params, const State& state) {
  if (params.full_state || state.board.phase == board::kExplore) return {};
  if (!state.key_taken) return Cue{"no key taken", {}};
  return Cue{"key taken", params.board.palette.key};
}

KeyToDoor::State KeyToDoor::set_level(Params& params, const board::Level& level) {
  board::check_map(level, board::kExplore, "# +k");
  board::check_map(level, board::kDistractor, "# +a");
  board::check_map(level, board::kReward, "# +d");
  for (const board::Phase phase : {board::kExplore, board::kDistractor, board::kReward})
    board::find_only_cell(level.maps[phase], '+', phase);

  params.board.palette = level.palette;
  board::set_map(params.board, board::kExplore, level.maps[board::kExplore], "#");
  board::set_apple_map(params.board, level.maps[board::kDistractor]);
  board::set_map(params.board, board::kReward, level.maps[board::kReward], "#");

  State state{};
  state.board = board::state_of_level(params.board);
  state.key = board::find_only_cell(level.maps[board::kExplore], 'k', board::kExplore);
  state.door = board::find_only_cell(level.maps[board::kReward], 'd', board::kReward);
  state.reward_start = params.board.starts[board::kReward].cell[0];
  return state;
}

std::vector<TaskPreset> KeyToDoor::presets() {
  std::vector<TaskPreset> presets;
  for (const char* steps : {"60", "120", "250", "500"})
    presets.push_back({std::string("key_to_door_") + steps, kName, {{"distractor_steps", steps}}, kMemoryRlSource});
  return presets;
}

template TaskEntry task_entry<KeyToDoor>();

}  // namespace engram
