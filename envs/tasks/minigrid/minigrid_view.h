// What the tasks of MiniGrid share: an agent that turns and walks in a maze of cells, the 7 x 7 cells ahead of it that
// it sees, walls and closed doors hiding what lies behind them, and three codes for each cell. Source:
// Chevalier-Boisvert et al., "Minigrid & Miniworld: Modular & customizable reinforcement learning environments for
// goal-oriented tasks", NeurIPS 2023 (datasets and benchmarks), in the form of the package minigrid 3.2.0, with
// see_through_walls off.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "base/rng.h"
#include "envs/task.h"

namespace engram::minigrid {

inline constexpr const char* kSource =
    "Chevalier-Boisvert et al., Minigrid & Miniworld, NeurIPS 2023 (datasets and benchmarks; minigrid 3.2.0)";

enum Action { kLeft, kRight, kForward, kPickUp, kDrop, kToggle, kDone, kActions };
inline constexpr const char* kActionNames[] = {"left", "right", "forward", "pickup", "drop", "toggle", "done"};

// A cell's codes, numbered as the package does: what is there, its colour, and of a door whether it is open.
enum Object : std::uint8_t {
  kUnseen = 0,
  kEmpty = 1,
  kWall = 2,
  kDoor = 4,
  kKey = 5,
  kBall = 6,
  kGoal = 8,
  kAgent = 10
};
inline constexpr int kObjects = 11, kColours = 6, kStates = 4;  // numbers of codes; an agent's state is its direction
enum Colour : std::uint8_t { kRed = 0, kGreen = 1, kBlue = 2, kYellow = 4, kGrey = 5 };
enum DoorState : std::uint8_t { kOpen = 0, kClosed = 1, kLocked = 2 };

// A number drawn from 0 to count - 1.
HOST_DEVICE inline int below(int count, Rng& rng) {
  return static_cast<int>(rng.below(static_cast<std::uint32_t>(count)));
}

struct Codes {
  std::uint8_t object, colour, state;
};
HOST_DEVICE constexpr Codes nothing() { return {kEmpty, 0, 0}; }

// Something other than a wall, in the cell (x, y); x counts to the right, y down. It may stand in a gap of a wall.
struct Item {
  Codes codes;
  std::uint8_t x, y;
};
HOST_DEVICE constexpr bool hides(const Item& item) { return item.codes.object == kDoor && item.codes.state != kOpen; }

// direction: 0 right, 1 down, 2 left, 3 up.
struct Agent {
  std::uint8_t x, y, direction;
};

// What every step calls is inlined by force: called with arrays of items it takes half as long again.

// ---- The maze. ----

inline constexpr int kMaxSide = 17;  // of a maze, in cells
inline constexpr int kView = 7;      // side of what the agent sees; it stands in the middle of the nearest row
inline constexpr int kAside = kView / 2;
inline constexpr int kObservationBytes = 3 * kView * kView;

// A cell as seen by who looks in a direction: how far ahead and how far to the right it lies of the corner of a square
// of 17 x 17 cells around the maze that is behind and to the left.
struct Turned {
  int ahead, right;
};
HOST_DEVICE [[gnu::always_inline]] constexpr Turned turned(int direction, int x, int y) {
  const int along = direction % 2 == 0 ? x : y, across = direction % 2 == 0 ? y : x;
  const bool towards_left_or_up = direction >= 2, from_right_to_left = direction == 1 || direction == 2;
  return {towards_left_or_up ? kMaxSide - 1 - along : along, from_right_to_left ? kMaxSide - 1 - across : across};
}

// The walls, for each direction in rows that lie one ahead of the other: bit right + kAside of row[direction][ahead] is
// set at a wall. Beyond the maze everything is wall.
struct Walls {
  std::uint32_t row[4][kMaxSide + kView - 1];

  HOST_DEVICE constexpr bool at(int x, int y) const { return (row[0][x] >> (y + kAside) & 1) != 0; }
};

// A map as text, rows from the top of the same width: # wall. Throws std::invalid_argument for a larger map than
// kMaxSide and for rows of unequal width.
Walls make_walls(const std::vector<std::string>& map);
// A row of such a map, without walls but at its ends; width: 2 or more.
std::string open_row(int width);

// ---- What the agent sees. ----

// Bit 8 f + i stands for the cell f rows ahead of the agent (0: its own) in column i from the left; bit kOutOfView for
// none.
inline constexpr unsigned kOutOfView = 63;
inline constexpr int kMaxItems = 3;
struct View {
  std::uint64_t seen, walls;
  std::uint8_t item[kMaxItems];  // the bits of the items

  HOST_DEVICE constexpr bool sees_item(int i) const { return (seen >> item[i] & 1) != 0; }
};

// The bit of the cell (x, y).
HOST_DEVICE [[gnu::always_inline]] constexpr unsigned view_bit(Agent agent, int x, int y) {
  const Turned own = turned(agent.direction, agent.x, agent.y), cell = turned(agent.direction, x, y);
  const auto ahead = static_cast<unsigned>(cell.ahead - own.ahead);
  const auto column = static_cast<unsigned>(cell.right - own.right + kAside);
  return (ahead < kView) & (column < kView) ? 8 * ahead + column : kOutOfView;
}
HOST_DEVICE constexpr bool sees(const View& view, Agent agent, int x, int y) {
  return (view.seen >> view_bit(agent, x, y) & 1) != 0;
}

// How light spreads: of a row whose cells in `lit` are lit from the row before and whose cells in `clear` light passes,
// it fills each run of clear cells that has a lit one, and lights the cells beside it; so it lights the row ahead, too.
// (The reference spreads it from cell to cell, first to the right, then to the left; each pass goes on where a clear
// cell is lit, so the order does not matter.) Seven bits each.
HOST_DEVICE constexpr unsigned spread_light(unsigned lit, unsigned clear) {
  unsigned right = lit & clear, left = right, right_clear = clear, left_clear = clear;
  for (int distance = 1; distance < kView; distance *= 2) {
    right |= right_clear & right << distance;
    right_clear &= right_clear << distance;
    left |= left_clear & left >> distance;
    left_clear &= left_clear >> distance;
  }
  const unsigned run = right | left;
  return (run | run << 1 | run >> 1) & ((1u << kView) - 1);
}
#if !defined(__CUDA_ARCH__)
extern const std::array<std::uint8_t, 1 << 2 * kView> kSpreadLight;  // spread_light(lit, clear) at lit << kView | clear
#endif

// What the agent sees of walls and items.
template <int kItems>
HOST_DEVICE [[gnu::always_inline]] inline View see(const Walls& walls, Agent agent, const Item (&items)[kItems]) {
  const Turned own = turned(agent.direction, agent.x, agent.y);
  const std::uint32_t* const rows = walls.row[agent.direction] + own.ahead;
  constexpr unsigned kRow = (1u << kView) - 1;
  View view{};
  for (int f = 0; f < kView; ++f) view.walls |= std::uint64_t{rows[f] >> own.right & kRow} << 8 * f;
  std::uint64_t opaque = 0;
  static_assert(kItems <= kMaxItems);
  for (int i = 0; i < kItems; ++i) {
    const unsigned bit = view_bit(agent, items[i].x, items[i].y);
    view.item[i] = static_cast<std::uint8_t>(bit);
    view.walls &= ~(std::uint64_t{1} << bit);
    opaque |= std::uint64_t{hides(items[i])} << bit;
  }
  opaque |= view.walls;
  unsigned lit = 1u << kAside;
  for (int f = 0; f < kView; ++f) {
    const unsigned clear = static_cast<unsigned>(~opaque >> 8 * f) & kRow;
#if defined(__CUDA_ARCH__)
    const unsigned spread = spread_light(lit, clear);
#else
    const unsigned spread = kSpreadLight[lit << kView | clear];
#endif
    view.seen |= std::uint64_t{lit | spread} << 8 * f;
    lit = spread;
  }
  return view;
}

// How bytes stand for codes. kSpread: each of the three is multiplied so that its largest lies near 255, for encoders
// that divide bytes by 255. kOriginal: the codes themselves, 0 to 10. kTokens: the same bytes, each a token.
enum class CodeBytes { kSpread, kOriginal, kTokens };

// The options of what is observed.
struct Observed {
  CodeBytes codes = CodeBytes::kSpread;
  bool direction = false;  // the agent's, as a further part

  void list_options(OptionList& list);
};
// The parts of an observation of `side` x `side` cells: an image of three channels, or objects, colours and states as
// tokens; the direction as a token.
std::vector<ObservationPart> observation_parts(const Observed& observed, int side);

// What a cell's codes are multiplied by.
struct Scale {
  std::uint8_t object, colour, state;
};
Scale scale_of(CodeBytes codes);

// An observation of `side` x `side` cells in the colours of draw() and in words, for people; from_above: as show_all()
// writes it.
ShownObservation shown(const Observed& observed, int side, bool from_above, const std::uint8_t* observation);

// What all tasks say of themselves, and what their options and parameters begin with. What they observe is the view.
struct Game {
  static constexpr const char* kSource = minigrid::kSource;
  static constexpr int kNumActions = kActions;
  static constexpr const auto& kActionNames = minigrid::kActionNames;
  using Element = std::uint8_t;

  template <class Task, int kSize>
  struct Options : TaskOptions<Task> {
    int size = kSize;
    Observed observed;
  };

  struct Params {
    int size;
    int max_steps;
    Observed observed;
    Scale scale;
    bool full_state;
  };
  // An episode takes at most `steps_per_cell` size^2 steps.
  template <class OwnOptions>
  static Params params_of(const OwnOptions& options, int steps_per_cell) {
    return {options.size, steps_per_cell * options.size * options.size, options.observed,
            scale_of(options.observed.codes), options.full_state};
  }

  static std::vector<ObservationPart> observation_parts(const Params& params) {
    return minigrid::observation_parts(params.observed, kView);
  }
  static int max_episode_steps(const Params& params) { return params.max_steps; }
  static ShownObservation shown(const Params& params, const Element* observation) {
    return minigrid::shown(params.observed, kView, /*from_above=*/false, observation);
  }
};

// Writes the observation [3, 7, 7]: objects, colours, states; the farthest row first, the agent in the middle of the
// last one, where it sees what it holds.
template <int kItems>
HOST_DEVICE [[gnu::always_inline]] inline void show(const View& view, const Item (&items)[kItems], Codes held,
                                                    Scale scale, std::uint8_t* out) {
  static_assert(kWall == 2 * kEmpty);
  constexpr int kCells = kView * kView, kOwnCell = kCells - 1 - kAside;
  // Seven bits as bytes of 0 and 1.
  const auto bytes_of = [](std::uint64_t bits) { return (bits & 127) * 0x0002040810204081u & 0x0101010101010101u; };
  std::uint64_t walls[kView];
  // Eight bytes at once: the one too many is overwritten by the next row.
  for (int row = 0; row < kView; ++row) {
    const int shift = 8 * (kView - 1 - row);
    walls[row] = bytes_of((view.seen & view.walls) >> shift);
    const std::uint64_t objects = (bytes_of(view.seen >> shift) + walls[row]) * (kEmpty * scale.object);
    memcpy(out + row * kView, &objects, 8);
  }
  for (int row = 0; row < kView; ++row) {
    const std::uint64_t colours = walls[row] * (kGrey * scale.colour);
    memcpy(out + kCells + row * kView, &colours, 8);
  }
  memset(out + 2 * kCells, 0, kCells);

  const auto put = [&](unsigned cell, Codes codes) {
    out[cell] = static_cast<std::uint8_t>(codes.object * scale.object);
    out[kCells + cell] = static_cast<std::uint8_t>(codes.colour * scale.colour);
    out[2 * kCells + cell] = static_cast<std::uint8_t>(codes.state * scale.state);
  };
  // Without a branch: whether an item is in sight is unpredictable. What is not goes to the agent's own cell, which is
  // written last.
  for (int i = 0; i < kItems; ++i) {
    const unsigned bit = view.item[i], cell = (kView - 1 - bit / 8) * kView + bit % 8;
    put(view.sees_item(i) ? cell : kOwnCell, items[i].codes);
  }
  put(kOwnCell, held);
}

// Writes the observation [3, side, side] of a square maze from above, row y, column x, nothing hidden: the agent as
// object kAgent with its direction as state; the upper left corner, which must be a wall, shows what the agent holds.
// An item off the maze is left out.
template <int kItems>
HOST_DEVICE inline void show_all(const Walls& walls, int side, Agent agent, const Item (&items)[kItems], Codes held,
                                 Scale scale, std::uint8_t* out) {
  const auto put = [&](int x, int y, Codes codes) {
    const int cell = y * side + x, cells = side * side;
    out[cell] = static_cast<std::uint8_t>(codes.object * scale.object);
    out[cells + cell] = static_cast<std::uint8_t>(codes.colour * scale.colour);
    out[2 * cells + cell] = static_cast<std::uint8_t>(codes.state * scale.state);
  };
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) put(x, y, walls.at(x, y) ? Codes{kWall, kGrey, 0} : nothing());
  for (const Item& item : items)
    if (item.x < side && item.y < side) put(item.x, item.y, item.codes);
  put(agent.x, agent.y, {kAgent, kRed, agent.direction});
  put(0, 0, held);
}

// Writes the agent's direction behind an observation of `cells` cells, where it is observed.
HOST_DEVICE inline void show_direction(const Observed& observed, Agent agent, int cells, std::uint8_t* out) {
  if (observed.direction) out[3 * cells] = agent.direction;
}

// ---- What the agent does. ----

struct Cell {
  std::uint8_t x, y;
};
HOST_DEVICE constexpr Cell front_of(Agent agent) {
  return {static_cast<std::uint8_t>(agent.x + (agent.direction == 0) - (agent.direction == 2)),
          static_cast<std::uint8_t>(agent.y + (agent.direction == 1) - (agent.direction == 3))};
}

// Turns left or right, or steps into the cell in front if that is free. Without a branch: actions are unpredictable.
HOST_DEVICE constexpr void walk(Agent& agent, int action, Cell front, bool front_is_free) {
  const bool steps = (action == kForward) & front_is_free;
  agent.x = steps ? front.x : agent.x;
  agent.y = steps ? front.y : agent.y;
  agent.direction = static_cast<std::uint8_t>((agent.direction + (action == kRight) - (action == kLeft)) & 3);
}

// Reward of success with step `step` of at most `max_steps`; rounded once, from the reference's double.
HOST_DEVICE constexpr float success_reward(int step, int max_steps) {
  return static_cast<float>(1 - 0.9 * (static_cast<double>(step) / max_steps));
}

// The presets TASK_SIZE.
std::vector<TaskPreset> sizes(const std::string& task, std::initializer_list<const char*> sizes);

// ---- For people. ----

// Draws maze, items and agent, an arrow on it; floor that the agent sees is bright.
void draw(const Walls& walls, int width, int height, const View& view, Agent agent, const Item* items, int num_items,
          Canvas& canvas);
Rgb item_colour(Codes codes);
// Of draw() and shown(), with these items: what each is called, and its letter.
struct NamedItem {
  char letter;
  Codes codes;
  const char* name;
};
std::vector<ColourMeaning> colours(std::initializer_list<NamedItem> items);

}  // namespace engram::minigrid
