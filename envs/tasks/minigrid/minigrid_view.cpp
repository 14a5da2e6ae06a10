#include "envs/tasks/minigrid/minigrid_view.h"

#include <array>
#include <stdexcept>

namespace engram::minigrid {
namespace {

constexpr Rgb kWallColour{25, 25, 25}, kInSight{235, 235, 235}, kFloor{180, 180, 180}, kAgentColour{228, 148, 109};
constexpr Rgb kHidden{110, 110, 110};

}  // namespace

constexpr std::array<std::uint8_t, 1 << 2 * kView> kSpreadLight = [] {
  std::array<std::uint8_t, 1 << 2 * kView> table{};
  for (unsigned lit = 0; lit < 1u << kView; ++lit)
    for (unsigned clear = 0; clear < 1u << kView; ++clear)
      table[lit << kView | clear] = static_cast<std::uint8_t>(spread_light(lit, clear));
  return table;
}();

std::string open_row(int width) {
  std::string row(static_cast<std::size_t>(width), ' ');
  row.front() = row.back() = '#';
  return row;
}

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

void Observed::list_options(OptionList& list) {
  list.add("codes", codes,
           {{CodeBytes::kSpread, "spread"}, {CodeBytes::kOriginal, "original"}, {CodeBytes::kTokens, "tokens"}},
           "spread: objects' codes times 25, colours' times 51, states' times 85, to use the range of a byte; "
           "original: as they are, 0 to 10; tokens: the same, each with an embedding in the network");
  list.add("direction", direction, "the observation also has the agent's direction, as a token");
}

std::vector<ObservationPart> observation_parts(const Observed& observed, int side) {
  std::vector<ObservationPart> parts;
  if (observed.codes == CodeBytes::kTokens)
    parts = {{"objects", PartKind::kTokens, {side, side}, kObjects},
             {"colours", PartKind::kTokens, {side, side}, kColours},
             {"states", PartKind::kTokens, {side, side}, kStates}};
  else
    parts = {{"cells", PartKind::kImage, {3, side, side}}};
  if (observed.direction) parts.push_back({"direction", PartKind::kTokens, {1}, 4});
  return parts;
}

Scale scale_of(CodeBytes codes) { return codes == CodeBytes::kSpread ? Scale{25, 51, 85} : Scale{1, 1, 1}; }

std::vector<TaskPreset> sizes(const std::string& task, std::initializer_list<const char*> sizes) {
  std::vector<TaskPreset> presets;
  for (const std::string size : sizes) presets.push_back({task + "_" + size, task, {{"size", size}}, kSource});
  return presets;
}

Rgb item_colour(Codes codes) {
  constexpr Rgb kRedDoor{200, 0, 0}, kBlueColour{0, 90, 220}, kGoalColour{0, 150, 0};
  constexpr Rgb kYellowKey{230, 180, 0}, kYellowDoor{150, 95, 0};  // apart: a door's key has its colour
  if (codes.object == kBall) return kBlueColour;
  if (codes.object == kGoal) return kGoalColour;
  const Rgb colour = codes.colour == kRed    ? kRedDoor
                     : codes.colour == kBlue ? kBlueColour
                     : codes.object == kDoor ? kYellowDoor
                                             : kYellowKey;
  if (codes.object != kDoor || codes.state != kOpen) return colour;
  const auto paler = [](std::uint8_t value) { return static_cast<std::uint8_t>((value + 2 * 255) / 3); };
  return {paler(colour.red), paler(colour.green), paler(colour.blue)};
}

void draw(const Walls& walls, int width, int height, const View& view, Agent agent, const Item* items, int num_items,
          Canvas& canvas) {
  canvas.resize(height, width, kFloor);
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      if (walls.at(x, y))
        canvas.set(y, x, kWallColour);
      else if (sees(view, agent, x, y))
        canvas.set(y, x, kInSight);
  for (int i = 0; i < num_items; ++i) canvas.set(items[i].y, items[i].x, item_colour(items[i].codes));
  canvas.set(agent.y, agent.x, kAgentColour);
  canvas.set_arrow({agent.y, agent.x, static_cast<Facing>(agent.direction)});
}

std::vector<ColourMeaning> colours(std::initializer_list<NamedItem> items) {
  std::vector<ColourMeaning> colours = {{'#', kWallColour, "wall"},
                                        {'.', kInSight, "floor in sight"},
                                        {':', kFloor, "other floor"},
                                        {'?', kHidden, "not seen"},
                                        {'@', kAgentColour, "agent"}};
  for (const NamedItem& item : items) colours.push_back({item.letter, item_colour(item.codes), item.name});
  return colours;
}

namespace {

std::string name_of(Codes codes) {
  constexpr const char* kColours[] = {"red", "green", "blue", "purple", "yellow", "grey"};
  constexpr const char* kStates[] = {"open", "closed", "locked"};
  const std::string colour = codes.colour < std::size(kColours) ? std::string(kColours[codes.colour]) + " " : "";
  switch (codes.object) {
    case kDoor:
      return (codes.state < std::size(kStates) ? kStates[codes.state] + std::string(" ") : "") + colour + "door";
    case kKey:
      return colour + "key";
    case kBall:
      return colour + "ball";
    case kGoal:
      return "goal";
    default:
      return "";
  }
}

// In the colours of draw().
Rgb cell_colour(Codes codes) {
  switch (codes.object) {
    case kUnseen:
      return kHidden;
    case kWall:
      return kWallColour;
    case kEmpty:
      return kInSight;
    case kAgent:
      return kAgentColour;
    default:
      return item_colour(codes);
  }
}

}  // namespace

ShownObservation shown(const Observed& observed, int side, bool from_above, const std::uint8_t* observation) {
  const auto cells = static_cast<std::size_t>(side * side);
  const Scale scale = scale_of(observed.codes);
  const auto codes_at = [&](std::size_t cell) {
    const auto byte = [&](std::size_t plane) { return static_cast<int>(observation[plane * cells + cell]); };
    return Codes{static_cast<std::uint8_t>(byte(0) / scale.object), static_cast<std::uint8_t>(byte(1) / scale.colour),
                 static_cast<std::uint8_t>(byte(2) / scale.state)};
  };
  const std::size_t held_cell = from_above ? 0 : cells - 1 - static_cast<std::size_t>(side / 2);
  ShownObservation shown;
  shown.picture.emplace().resize(side, side, {});
  constexpr std::array<const char*, 4> kDirections = {"right", "down", "left", "up"};
  std::string seen, facing;
  for (std::size_t cell = 0; cell < cells; ++cell) {
    const Codes codes = codes_at(cell);
    const bool is_held = cell == held_cell;
    // What stands in place of what is held: a wall's corner from above, the agent in its own view, looking up.
    constexpr auto kUp = static_cast<std::uint8_t>(Facing::kUp);
    const Codes drawn = !is_held ? codes : from_above ? Codes{kWall, kGrey, 0} : Codes{kAgent, kRed, kUp};
    const int row = static_cast<int>(cell) / side, column = static_cast<int>(cell) % side;
    shown.picture->set(row, column, cell_colour(drawn));
    if (drawn.object == kAgent && drawn.state < kDirections.size())
      shown.picture->set_arrow({row, column, static_cast<Facing>(drawn.state)});
    if (is_held) continue;
    if (const std::string name = name_of(codes); !name.empty()) seen += (seen.empty() ? "" : ", ") + name;
    if (codes.object == kAgent && codes.state < kDirections.size())
      facing = std::string(", facing ") + kDirections[codes.state];
  }
  const std::string held = name_of(codes_at(held_cell));
  shown.lines = {"in sight: " + (seen.empty() ? "nothing" : seen),
                 "in hand: " + (held.empty() ? "nothing" : held) + (from_above ? facing : ", facing up")};
  if (observed.direction)
    shown.lines.push_back(std::string("direction in the maze: ") + kDirections.at(observation[3 * cells]));
  return shown;
}

}  // namespace engram::minigrid
