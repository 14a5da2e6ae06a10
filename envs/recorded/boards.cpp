// Recorded episodes of visual match, key-to-door and the T-maze.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "base/error.h"
#include "base/text/json_text.h"
#include "envs/recorded/base64.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/memory_rl/key_to_door.h"
#include "envs/tasks/memory_rl/tmaze.h"
#include "envs/tasks/memory_rl/visual_match.h"

namespace engram::recorded {
namespace {

Recording<std::uint8_t> read_board_recording(const Json& episode) {
  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, 3LL * board::kMaxPhaseSteps));
  auto recording = read_common<std::uint8_t>(episode, length);

  const std::string actions = get_text(episode, "actions");
  if (actions.size() != length)
    throw UserError("'actions' has " + std::to_string(actions.size()) + " letters; it takes " + std::to_string(length));
  for (const char letter : actions) {
    const std::size_t action = std::string("NSWE").find(letter);
    if (action == std::string::npos)
      throw UserError(std::string("'actions' holds '") + letter + "'; it takes N, S, W, E");
    recording.actions.push_back(static_cast<int>(action));
  }
  for (const Json& cell : get_array(episode, "player", length)) {
    const bool well_formed = cell.is_array() && cell.size() == 2 && cell[0].is_number_unsigned() &&
                             cell[1].is_number_unsigned() && cell[0].get<std::uint64_t>() < board::kRows &&
                             cell[1].get<std::uint64_t>() < board::kColumns;
    if (!well_formed) refuse("player", cell, "a row 0..6 and a column 0..10");
    recording.players.push_back({cell[0].get<std::uint8_t>(), cell[1].get<std::uint8_t>()});
  }
  const Json shape = {length + 1, 3, board::kCrop, board::kCrop};
  if (field_of(episode, "obs_shape") != shape) refuse("obs_shape", field_of(episode, "obs_shape"), json_text(shape));
  recording.observations = decode_base64(get_text(episode, "obs_b64"));
  if (recording.observations.size() != (length + 1) * board::kObservationBytes)
    throw UserError("'obs_b64' holds " + std::to_string(recording.observations.size()) + " bytes; obs_shape takes " +
                    std::to_string((length + 1) * board::kObservationBytes));
  return recording;
}

Rgb read_colour(const Json& colours, const std::string& symbol) {
  const auto found = colours.find(symbol);
  if (found == colours.end()) throw UserError("'colours' has no entry for '" + symbol + "'");
  bool well_formed = found->is_array() && found->size() == 3;
  for (std::size_t i = 0; well_formed && i < 3; ++i)
    well_formed = (*found)[i].is_number_unsigned() && (*found)[i].get<std::uint64_t>() <= 255;
  if (!well_formed) refuse("colours", *found, "three integers 0..255 for '" + symbol + "'");
  return {(*found)[0].get<std::uint8_t>(), (*found)[1].get<std::uint8_t>(), (*found)[2].get<std::uint8_t>()};
}

board::Level read_level(const Json& episode, bool has_squares) {
  board::Level level;
  for (int phase = 0; const Json& map : get_array(episode, "grids", board::kPhases)) {
    if (!map.is_array() || map.size() != board::kRows) refuse("grids", map, "7 rows for each of the 3 phases");
    for (int row = 0; row < board::kRows; ++row) {
      if (!map[row].is_string()) refuse("grids", map[row], "a text of 11 characters for each row");
      level.maps[phase][row] = map[row].get<std::string>();
    }
    ++phase;
  }
  const Json& colours = field_of(episode, "colours");
  if (!colours.is_object()) refuse("colours", colours, "an object from characters to RGB");
  level.palette.floor = read_colour(colours, " ");
  level.palette.wall = read_colour(colours, "#");
  level.palette.player = read_colour(colours, "+");
  level.palette.apple = read_colour(colours, "a");
  if (has_squares) {
    for (int i = 0; i < 3; ++i) level.palette.square[i] = read_colour(colours, std::string(1, "bce"[i]));
  } else {
    level.palette.key = read_colour(colours, "k");
    level.palette.door = read_colour(colours, "d");
    level.palette.indicator = read_colour(colours, "i");
  }
  return level;
}

// Phase lengths, apples and rewards, common to the two tasks.
template <class Options>
void read_board_options(const Json& episode, const board::Level& level, Options& options) {
  options.explore_steps = get_int(episode, "explore_frames", 1, board::kMaxPhaseSteps);
  options.distractor_steps = get_int(episode, "distractor_frames", 0, board::kMaxPhaseSteps);
  options.reward_steps = get_int(episode, "reward_frames", 1, board::kMaxPhaseSteps);
  options.num_apples = get_int(episode, "num_apples", 0, board::kMaxApples);
  options.apple_reward = get_float(episode, "apple_reward");
  options.final_reward = get_float(episode, "final_reward");
  options.respawn_every = get_int(episode, "respawn_every", 0, board::kMaxPhaseSteps);
  int apples = 0;
  for (const std::string& row : level.maps[board::kDistractor])
    for (const char symbol : row) apples += symbol == 'a';
  if (apples != options.num_apples)
    throw UserError("'num_apples' is " + std::to_string(options.num_apples) + ", but the distractor map holds " +
                    std::to_string(apples));
}

}  // namespace

std::optional<std::string> replay_visual_match(const Json& episode) {
  const board::Level level = read_level(episode, true);
  VisualMatch::Options options;
  options.active = !get_bool(episode, "passive");
  read_board_options(episode, level, options);
  const std::string target = get_text(episode, "target");
  if (target.size() != 1) refuse("target", target, "b, c or e");
  VisualMatch::Params params = VisualMatch::make_params(options, 0, Purpose::kTest);
  const VisualMatch::State state = VisualMatch::set_level(params, level, target[0]);
  return play<VisualMatch>(params, state, read_board_recording(episode),
                           [](const VisualMatch::State& now) { return now.board.player; });
}

std::optional<std::string> replay_key_to_door(const Json& episode) {
  const board::Level level = read_level(episode, false);
  KeyToDoor::Options options;
  const std::string variant = get_text(episode, "variant");
  if (variant != "sr" && variant != "cca") refuse("variant", variant, "sr or cca");
  options.variant = variant == "sr" ? DoorVariant::kSr : DoorVariant::kCca;
  read_board_options(episode, level, options);
  KeyToDoor::Params params = KeyToDoor::make_params(options, 0, Purpose::kTest);
  const KeyToDoor::State state = KeyToDoor::set_level(params, level);
  return play<KeyToDoor>(params, state, read_board_recording(episode),
                         [](const KeyToDoor::State& now) { return now.board.player; });
}

std::optional<std::string> replay_tmaze(const Json& episode) {
  TMaze::Options options;
  options.active = get_bool(episode, "active");
  options.corridor_length = get_int(episode, "corridor_length", 1, 1'000'000);
  options.goal_reward = get_float(episode, "goal_reward");
  TMaze::Params params = TMaze::make_params(options, 0, Purpose::kTest);
  params.step_penalty = get_float(episode, "penalty");  // the file's is a step's, the option a corridor's
  const int goal_y = get_int(episode, "goal_y", -1, 1);
  if (goal_y == 0) refuse("goal_y", 0, "-1 or 1");

  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, 2'000'000));
  auto recording = read_common<float>(episode, length);
  recording.actions = get_actions(episode, length, TMaze::kNumActions);
  for (const Json& observation : get_array(episode, "obs", length + 1)) {
    if (!observation.is_array() || observation.size() != 2) refuse("obs", observation, "two numbers a row");
    for (const Json& number : observation)
      recording.observations.push_back(as_float("obs", number) + 0.0f);  // -0 becomes 0
  }
  return play<TMaze>(params, TMaze::start(params, goal_y), recording);
}

}  // namespace engram::recorded
