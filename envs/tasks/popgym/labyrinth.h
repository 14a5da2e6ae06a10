// What POPGym's two labyrinths share: the maze, the walk through it, and what is seen of it. Source: cards.h.
//
// Cells are counted from 0, the outer wall included: x to the right, y down. Mazes are drawn by hunt and kill, as the
// package mazelib 0.9.16 draws them for POPGym: random walks to cells that were not visited, from cells that are drawn
// again and again until hardly a cell can have been missed.
//
// Observation: [50] float, one-hot codes: of the 3 x 3 cells around the agent, row by row, whether each is free, wall,
// the start, the goal or (never) hidden; and of the last action, left, right, up, down or none. As in the original, at
// the upper and at the left border the view begins with the agent's own row or column, and walls are filled in at its
// end. With full_state three numbers for each cell of the whole maze follow, row by row: 1 where one can walk; where
// the agent is; and what the task adds.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"
#include "envs/tasks/popgym/cards.h"

namespace engram::labyrinth {

inline constexpr int kMinSize = 4, kMaxSize = 18, kMaxSide = kMaxSize + 1;
inline constexpr int kNumActions = 4, kNone = 4;  // the last action before the first
inline constexpr const char* kActionNames[] = {"left", "right", "up", "down"};
inline constexpr int kView = 3, kKinds = 5, kSeen = kView * kView * kKinds + kNumActions + 1;
enum Kind : std::uint8_t { kFree, kWall, kStart, kGoal };

struct Place {
  std::uint8_t x, y;
  friend constexpr bool operator==(const Place&, const Place&) = default;
};

// A bit for each cell.
struct Cells {
  std::uint32_t row[kMaxSide];

  HOST_DEVICE constexpr bool has(Place at) const { return (row[at.y] >> at.x & 1) != 0; }
  HOST_DEVICE constexpr void add(Place at) { row[at.y] |= 1u << at.x; }
};

struct Maze {
  Cells open;  // of walls, all but the start
  Place start, end;
};

// A labyrinth of `size`: its side, the outer walls included.
HOST_DEVICE constexpr int side_of(int size) { return size + 1; }

HOST_DEVICE constexpr int below(int count, Rng& rng) {
  return static_cast<int>(rng.below(static_cast<std::uint32_t>(count)));
}

// A cell between the walls, the start of a corridor.
HOST_DEVICE constexpr Place draw_cell(int side, Rng& rng) {
  const int y = 1 + 2 * below(side / 2, rng), x = 1 + 2 * below(side / 2, rng);
  return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
}

HOST_DEVICE constexpr Place moved(Place at, int action, int steps) {
  const int x = at.x + steps * ((action == 1) - (action == 0)), y = at.y + steps * ((action == 3) - (action == 2));
  return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
}

// Whether the cell two steps on is within the walls.
HOST_DEVICE constexpr bool has_next(Place at, int action, int side) {
  const int place = action < 2 ? at.x : at.y;
  return action % 2 == 0 ? place > 1 : place < side - 2;
}

// Carves corridors from `at` on to cells that are not open yet, until none is beside the last.
HOST_DEVICE constexpr void walk(int side, Place at, Cells& open, Rng& rng) {
  for (;;) {
    int ways[kNumActions] = {}, count = 0;
    for (int action = 0; action < kNumActions; ++action)
      if (has_next(at, action, side) && !open.has(moved(at, action, 2))) ways[count++] = action;
    if (count == 0) return;
    const int action = ways[below(count, rng)];
    open.add(moved(at, action, 1));
    at = moved(at, action, 2);
    open.add(at);
  }
}

HOST_DEVICE constexpr Maze draw_maze(int size, Rng& rng) {
  const int side = side_of(size);
  Maze maze{};
  Place at = draw_cell(side, rng);
  maze.open.add(at);
  walk(side, at, maze.open, rng);
  for (int hunt = 0; hunt < side * side; ++hunt) {
    at = draw_cell(side, rng);
    if (maze.open.has(at)) walk(side, at, maze.open, rng);
  }
  // Start and end lie in opposite outer walls.
  const int wall = below(4, rng), last = side - 1;
  const auto from = static_cast<std::uint8_t>(1 + 2 * below(side / 2, rng)),
             to = static_cast<std::uint8_t>(1 + 2 * below(side / 2, rng));
  const auto near = static_cast<std::uint8_t>(wall % 2 == 0 ? 0 : last),
             far = static_cast<std::uint8_t>(wall % 2 == 0 ? last : 0);
  maze.start = wall < 2 ? Place{from, near} : Place{near, from};
  maze.end = wall < 2 ? Place{to, far} : Place{far, to};
  maze.open.add(maze.start);
  return maze;
}

// Where an action leads; off the board or into a wall nowhere.
HOST_DEVICE constexpr Place step_from(const Cells& open, int side, Place at, int action) {
  const int place = action < 2 ? at.x : at.y;
  if (action % 2 == 0 ? place == 0 : place == side - 1) return at;
  const Place next = moved(at, action, 1);
  return open.has(next) ? next : at;
}

// Writes the kSeen numbers; returns what comes after them. kind_of(place): of the cells of the board.
template <class KindOf>
HOST_DEVICE constexpr float* show_view(int side, Place at, int last_action, KindOf kind_of, float* out) {
  const int left = at.x == 0 ? 0 : at.x - 1, top = at.y == 0 ? 0 : at.y - 1;
  for (int y = top; y < top + kView; ++y)
    for (int x = left; x < left + kView; ++x) {
      // At the upper and the left border the view ends one cell earlier.
      const bool seen = x <= at.x + 1 && y <= at.y + 1 && x < side && y < side;
      const int kind = seen ? kind_of(Place{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)}) : kWall;
      out = cards::one_hot(kind, kKinds, out);
    }
  return cards::one_hot(last_action, kNumActions + 1, out);
}

// Of full_state. more_of(place): the third number of a cell, 0 or 1.
template <class MoreOf>
HOST_DEVICE constexpr void show_all(const Cells& open, int side, Place at, MoreOf more_of, float* out) {
  for (int y = 0; y < side; ++y)
    for (int x = 0; x < side; ++x) {
      const Place place{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
      *out++ = open.has(place) ? 1.0f : 0.0f;
      *out++ = place == at ? 1.0f : 0.0f;
      *out++ = more_of(place) ? 1.0f : 0.0f;
    }
}

HOST_DEVICE constexpr int observation_size(int side, bool full_state) {
  return kSeen + (full_state ? 3 * side * side : 0);
}

// Lists the options of both; refuses an odd size.
void list_options(OptionList& list, int& size, int& episode_length, bool& full_state);
void check_size(int size);
std::vector<VectorPart> vector_parts(int side, bool full_state, const std::string& more);
struct Colours {
  static constexpr Rgb kWall{25, 25, 25}, kFree{204, 204, 204}, kVisited{160, 190, 220}, kStart{134, 206, 235},
      kGoal{0, 160, 0}, kAgent{228, 148, 109};
};

}  // namespace engram::labyrinth
