#include "envs/tasks/minigrid_view.h"

#include <stdexcept>

namespace engram::minigrid {

constexpr std::array<std::uint8_t, 1 << 2 * kView> kSpreadLight = [] {
  std::array<std::uint8_t, 1 << 2 * kView> table{};
  for (unsigned lit = 0; lit < 1u << kView; ++lit)
    for (unsigned clear = 0; clear < 1u << kView; ++clear)
      table[lit << kView | clear] = static_cast<std::uint8_t>(spread_light(lit, clear));
  return table;
}();

Walls make_walls(const std::vector<std::string>& map) {
  const auto height = static_cast<int>(map.size());
  if (height > kMaxSide) throw std::invalid_argument("a maze of " + std::to_string(height) + " rows");
  for (const std::string& row : map)
    if (row.size() != map[0].size() || row.size() > kMaxSide) throw std::invalid_argument("a maze's row '" + row + "'");
  Walls walls{};
  for (auto& rows : walls.row)
    for (std::uint32_t& row : rows) row = ~0u;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < static_cast<int>(map[0].size()); ++x)
      for (int direction = 0; map[y][x] != '#' && direction < 4; ++direction) {
        const Turned cell = turned(direction, x, y);
        walls.row[direction][cell.ahead] &= ~(1u << (cell.right + kAside));
      }
  return walls;
}

void list_codes(OptionList& list, CodeBytes& codes) {
  list.add("codes", codes, {{CodeBytes::kSpread, "spread"}, {CodeBytes::kOriginal, "original"}},
           "spread: objects' codes times 25, colours' times 51, states' times 85, to use the range of a byte; "
           "original: as they are, 0 to 10");
}

Scale scale_of(CodeBytes codes) { return codes == CodeBytes::kSpread ? Scale{25, 51, 85} : Scale{1, 1, 1}; }

Rgb item_colour(Codes codes) {
  constexpr Rgb kRedDoor{200, 0, 0}, kBlueColour{0, 90, 220}, kYellowColour{230, 180, 0}, kGoalColour{0, 150, 0};
  if (codes.object == kBall) return kBlueColour;
  if (codes.object == kGoal) return kGoalColour;
  const Rgb colour = codes.colour == kRed ? kRedDoor : codes.colour == kBlue ? kBlueColour : kYellowColour;
  if (codes.object != kDoor || codes.state != kOpen) return colour;
  const auto paler = [](std::uint8_t value) { return static_cast<std::uint8_t>((value + 2 * 255) / 3); };
  return {paler(colour.red), paler(colour.green), paler(colour.blue)};
}

void draw(const Walls& walls, int width, int height, const View& view, Agent agent, const Item* items, int num_items,
          Canvas& canvas) {
  constexpr Rgb kWallColour{25, 25, 25}, kInSight{235, 235, 235}, kFloor{180, 180, 180}, kAgentColour{228, 148, 109};
  canvas.resize(height, width, kFloor);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      if (walls.at(x, y))
        canvas.set(y, x, kWallColour);
      else if (sees(view, agent, x, y))
        canvas.set(y, x, kInSight);
  for (int i = 0; i < num_items; ++i) canvas.set(items[i].y, items[i].x, item_colour(items[i].codes));
  canvas.set(agent.y, agent.x, kAgentColour);
}

}  // namespace engram::minigrid
