#include "envs/tasks/memory_rl/board.h"

#include <cstddef>

#include "base/error.h"

namespace engram::board {
namespace {

constexpr const char* kPhaseNames[kPhases] = {"explore", "distractor", "reward"};

std::string describe(char symbol) { return std::string("'") + symbol + "'"; }

void fill_planes(Map& map, const Text& text, std::string_view walls, const Palette& palette) {
  for (int channel = 0; channel < 3; ++channel)
    for (int row = -2; row < kRows + 2; ++row)
      for (int column = -2; column < Map::kStride - 2; ++column) {
        const bool on_board = row >= 0 && row < kRows && column >= 0 && column < kColumns;
        const bool wall = on_board && walls.find(text[row][column]) != std::string_view::npos;
        const Rgb colour = wall ? palette.wall : palette.floor;
        map.planes[channel * Map::kPlane + (row + 2) * Map::kStride + column + 2] = channel == 0   ? colour.red
                                                                                    : channel == 1 ? colour.green
                                                                                                   : colour.blue;
      }
}

}  // namespace

void Options::list_phases(OptionList& list, const Words& words) {
  const std::string in_steps = ", in steps";
  list.add("explore_steps", explore_steps, {1, kMaxPhaseSteps},
           std::string("length of phase 1, where ") + words.explore + in_steps);
  list.add("distractor_steps", distractor_steps, {0, kMaxPhaseSteps}, "length of phase 2, among the apples" + in_steps);
  list.add("reward_steps", reward_steps, {1, kMaxPhaseSteps},
           std::string("length of phase 3, ") + words.reward + in_steps);
  list.add("num_apples", num_apples, {0, kMaxApples}, "apples in phase 2");
  list.add("apple_reward", apple_reward, {-1e6, 1e6}, "reward of an apple");
  list.add("final_reward", final_reward, {-1e6, 1e6}, std::string("reward of ") + words.success);
  list.add("respawn_every", respawn_every, {0, kMaxPhaseSteps}, "steps until a taken apple comes back; 0: never");
}

void set_options(Params& params, const Options& options) {
  params.phase_steps[kExplore] = options.explore_steps;
  params.phase_steps[kDistractor] = options.distractor_steps;
  params.phase_steps[kReward] = options.reward_steps;
  params.num_apples = options.num_apples;
  params.respawn_every = options.respawn_every;
  params.apple_reward = static_cast<float>(options.apple_reward);
  params.final_reward = static_cast<float>(options.final_reward);
  params.palette = Palette{};
}

void check_map(const Level& level, Phase phase, std::string_view allowed) {
  const std::string where = std::string("the ") + kPhaseNames[phase] + " map";
  for (const std::string& row : level.maps[phase]) {
    if (row.size() != kColumns)
      throw UserError(where + " has a row of " + std::to_string(row.size()) + " characters: '" + row +
                      "'; each of the 7 rows takes 11");
    for (const char symbol : row)
      if (allowed.find(symbol) == std::string_view::npos)
        throw UserError(where + " holds " + describe(symbol) + "; it takes '" + std::string(allowed) + "'");
  }
}

CellList find_cells(const Text& map, char symbol) {
  CellList list{};
  const int limit = symbol == 'a' ? kMaxApples : 32;
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      if (map[row][column] != symbol) continue;
      if (list.count == limit)
        throw UserError("a map holds more than " + std::to_string(limit) + " times " + describe(symbol));
      list.cell[list.count++] = {static_cast<std::uint8_t>(row), static_cast<std::uint8_t>(column)};
    }
  return list;
}

Cell find_only_cell(const Text& map, char symbol, Phase phase) {
  const CellList list = find_cells(map, symbol);
  if (list.count != 1)
    throw UserError(std::string("the ") + kPhaseNames[phase] + " map holds " + std::to_string(list.count) + " times " +
                    describe(symbol) + "; it takes exactly one");
  return list.cell[0];
}

void set_map(Params& params, Phase phase, const Text& text, std::string_view walls) {
  Map& map = params.map[phase];
  map = Map{};
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column)
      if (walls.find(text[row][column]) == std::string_view::npos)
        map.open[row + 1] = static_cast<std::uint16_t>(map.open[row + 1] | 1u << (column + 1));
  fill_planes(map, text, walls, params.palette);
  params.starts[phase] = find_cells(text, '+');
}

void set_apple_map(Params& params, const Text& text) {
  set_map(params, kDistractor, text, "#");
  params.apple_cells = find_cells(text, 'a');
  for (int i = 0; i < params.apple_cells.count; ++i)
    if (const Cell cell = params.apple_cells.cell[i]; apple_bit(cell.row, cell.column) >= kAppleBits)
      throw UserError("an apple in row " + std::to_string(cell.row) +
                      " of the distractor map; apples lie in rows 1..5");

  for (unsigned bits = 0; bits < 1u << kCrop; ++bits) {
    std::uint8_t bytes[8] = {};
    for (int i = 0; i < kCrop; ++i) bytes[i] = (bits >> i) & 1 ? 255 : 0;
    std::memcpy(&params.spread[bits], bytes, 8);
  }
  const Rgb floor = params.palette.floor;
  const Rgb apple = params.palette.apple;
  std::memset(&params.floor_to_apple[0], floor.red ^ apple.red, 8);
  std::memset(&params.floor_to_apple[1], floor.green ^ apple.green, 8);
  std::memset(&params.floor_to_apple[2], floor.blue ^ apple.blue, 8);
}

const Text& apple_text() {
  static const Text text = {
      "###########",  //
      "#a a a a a#",  //
      "# a a a a #",  //
      "#a a a a a#",  //
      "# a a a a #",  //
      "#a a + a a#",  //
      "###########",
  };
  return text;
}

State state_of_level(const Params& params) {
  State state{};
  for (int i = 0; i < params.apple_cells.count; ++i) {
    const Cell cell = params.apple_cells.cell[i];
    state.apples |= std::uint64_t{1} << apple_bit(cell.row, cell.column);
  }
  state.player = params.starts[kExplore].cell[0];
  return state;
}

void draw_map(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(kRows, kColumns, params.palette.floor);
  for (int row = 0; row < kRows; ++row)
    for (int column = 0; column < kColumns; ++column) {
      if (!is_open(params.map[state.phase], row, column)) canvas.set(row, column, params.palette.wall);
      if (state.phase == kDistractor && has_apple(state, row, column)) canvas.set(row, column, params.palette.apple);
    }
  canvas.set(state.player.row, state.player.column, params.palette.player);
}

std::vector<ColourMeaning> colours(const Palette& palette) {
  return {{'#', palette.wall, "wall"},
          {'.', palette.floor, "floor"},
          {'@', palette.player, "agent"},
          {'a', palette.apple, "apple"}};
}

std::string phase_name(const State& state) { return kPhaseNames[state.phase]; }

}  // namespace engram::board
