#include "envs/tasks/key_to_door.h"

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
  list.add("explore_steps", explore_steps, {1, board::kMaxPhaseSteps}, "length of phase 1, where the key is, in steps");
  list.add("distractor_steps", distractor_steps, {0, board::kMaxPhaseSteps},
           "length of phase 2, among the apples, in steps");
  list.add("reward_steps", reward_steps, {1, board::kMaxPhaseSteps}, "length of phase 3, where the door is, in steps");
  list.add("num_apples", num_apples, {0, board::kMaxApples}, "apples in phase 2");
  list.add("apple_reward", apple_reward, {-1e6, 1e6}, "reward of an apple");
  list.add("final_reward", final_reward, {-1e6, 1e6}, "reward of opening the door");
  list.add("respawn_every", respawn_every, {0, board::kMaxPhaseSteps},
           "steps until a taken apple comes back; 0: never");
  list_full_state(list, full_state);
}

void KeyToDoor::Options::check() const { check_bounds(*this, kTaskSection); }

KeyToDoor::Params KeyToDoor::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{};
  params.board.phase_steps[board::kExplore] = options.explore_steps;
  params.board.phase_steps[board::kDistractor] = options.distractor_steps;
  params.board.phase_steps[board::kReward] = options.reward_steps;
  params.board.num_apples = options.num_apples;
  params.board.respawn_every = options.respawn_every;
  params.board.apple_reward = static_cast<float>(options.apple_reward);
  params.board.final_reward = static_cast<float>(options.final_reward);
  params.board.palette = board::Palette{};
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

}  // namespace engram
