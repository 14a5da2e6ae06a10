// The hidden path of mystery path, drawn as the original draws it (MysteryPath in pygame_assets.py): walls are put on a
// board of 7 x 7 cells, and A* looks for a way from one border to another with costs that are drawn at every look, so
// that what it finds is seldom the shortest.
//
// Cell c of the board is x = c / 7, y = c % 7. Distances are compared as integers: floor(2^20 sqrt(d2)) orders what is
// compared here as the original's doubles do (a test compares all pairs).
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "base/rng.h"
#include "envs/tasks/memory_gym/memory_gym.h"

namespace engram::memory_gym {

inline constexpr int kPathSide = 7, kPathCells = kPathSide * kPathSide;

HOST_DEVICE constexpr std::uint64_t bit_of(int cell) { return std::uint64_t{1} << cell; }

// Cells of a path and where it goes on from each: bit 0 and bit 1 of the Direction.
struct Path {
  std::uint64_t cells;
  std::uint64_t next[2];

  HOST_DEVICE constexpr bool has(int cell) const { return (cells >> cell & 1) != 0; }
  HOST_DEVICE constexpr int next_of(int cell) const {
    return static_cast<int>((next[0] >> cell & 1) | (next[1] >> cell & 1) << 1);
  }
  HOST_DEVICE constexpr void add(int cell, int direction) {
    cells |= bit_of(cell);
    for (int bit = 0; bit < 2; ++bit)
      if ((direction >> bit & 1) != 0) next[bit] |= bit_of(cell);
  }
};

// floor(2^20 sqrt(number))
HOST_DEVICE constexpr std::uint32_t scaled_root(int number) {
  const std::uint64_t square = static_cast<std::uint64_t>(number) << 40;
  std::uint64_t root = 0;
  for (int bit = 24; bit >= 0; --bit) {
    const std::uint64_t tried = root | std::uint64_t{1} << bit;
    if (tried * tried <= square) root = tried;
  }
  return static_cast<std::uint32_t>(root);
}

// The cells beside a cell, in the original's order: right, left, down, up. -1 where there is none.
HOST_DEVICE constexpr int beside(int cell, int number) {
  constexpr int kOrder[kDirections] = {kRight, kLeft, kDown, kUp};
  const int direction = kOrder[number];
  const int x = cell / kPathSide + step_x(direction), y = cell % kPathSide + step_y(direction);
  return x >= 0 && x < kPathSide && y >= 0 && y < kPathSide ? x * kPathSide + y : -1;
}

// Walls: each inner cell but those of the last inner row and column is one with odds 0.33; then four or eight of those
// at the border that are neither an end, nor beside one, nor touch an inner wall.
template <class Draws>
HOST_DEVICE constexpr std::uint64_t draw_walls(int start, int end, Draws& rng) {
  std::uint64_t inner = 0;
  for (int x = 1; x < kPathSide - 2; ++x)
    for (int y = 1; y < kPathSide - 2; ++y)
      if (rng.below(100) < 33) inner |= bit_of(x * kPathSide + y);

  std::uint64_t taken = bit_of(start) | bit_of(end);
  const int ends[] = {start, end};
  for (const int from : ends)
    for (int number = 0; number < kDirections; ++number)
      if (const int cell = beside(from, number); cell >= 0) taken |= bit_of(cell);
  int free[kPathCells] = {}, count = 0;
  for (int cell = 0; cell < kPathCells; ++cell) {
    const int x = cell / kPathSide, y = cell % kPathSide;
    if (x > 0 && x < kPathSide - 1 && y > 0 && y < kPathSide - 1) continue;
    bool touches = false;
    for (int near_x = x - 1; near_x <= x + 1; ++near_x)
      for (int near_y = y - 1; near_y <= y + 1; ++near_y)
        if (near_x >= 0 && near_x < kPathSide && near_y >= 0 && near_y < kPathSide)
          touches |= (inner >> (near_x * kPathSide + near_y) & 1) != 0;
    if (!touches && (taken >> cell & 1) == 0) free[count++] = cell;
  }
  std::uint64_t walls = inner;
  for (int left = rng.below(2) == 0 ? 4 : 8; left > 0 && count > 0; --left) {
    const int chosen = static_cast<int>(rng.below(static_cast<std::uint32_t>(count)));
    walls |= bit_of(free[chosen]);
    --count;
    for (int i = chosen; i < count; ++i) free[i] = free[i + 1];
  }
  return walls;
}

// A path from `start` to `end`, cells at opposite borders; the end has no next cell. Draws are an Rng or, in a test,
// the numbers that the original drew: below(count) is asked for them in its order.
template <class Draws>
HOST_DEVICE constexpr Path draw_path(int start, int end, Draws& rng) {
  const std::uint64_t walls = draw_walls(start, end, rng);
  std::uint64_t seen = bit_of(start), closed = 0;
  std::uint8_t open[kPathCells] = {}, previous[kPathCells] = {};  // open: in the order in which they were found
  std::uint16_t cost[kPathCells] = {};
  std::uint32_t estimate[kPathCells] = {};  // of the whole way through a cell, in units of 2^-20
  int count = 1;
  open[0] = static_cast<std::uint8_t>(start);
  while (count > 0) {
    // As the original has it: the first that is better than the oldest one, not the best of all.
    int winner = 0;
    for (int i = 1; i < count && winner == 0; ++i)
      if (estimate[open[i]] < estimate[open[0]]) winner = i;
    const int current = open[winner];
    if (current == end) break;
    --count;
    for (int i = winner; i < count; ++i) open[i] = open[i + 1];
    closed |= bit_of(current);
    for (int number = 0; number < kDirections; ++number) {
      const int cell = beside(current, number);
      if (cell < 0 || ((closed | walls) >> cell & 1) != 0) continue;
      const int found = cost[current] + 1 + static_cast<int>(rng.below(8));
      if ((seen >> cell & 1) == 0) {
        const int dx = cell / kPathSide - end / kPathSide, dy = cell % kPathSide - end % kPathSide;
        seen |= bit_of(cell);
        cost[cell] = static_cast<std::uint16_t>(found);
        estimate[cell] = (static_cast<std::uint32_t>(found) << 20) + scaled_root(dx * dx + dy * dy);
        open[count++] = static_cast<std::uint8_t>(cell);
      } else if (found >= cost[cell]) {
        continue;
      }
      // A cheaper way changes where a cell was come from, but, as in the original, not what it costs.
      previous[cell] = static_cast<std::uint8_t>(current);
    }
  }
  Path path{};
  path.cells = bit_of(end);
  for (int cell = end; cell != start; cell = previous[cell])
    for (int direction = 0; direction < kDirections; ++direction)
      if (previous[cell] + step_x(direction) * kPathSide + step_y(direction) == cell)
        path.add(previous[cell], direction);
  return path;
}

}  // namespace engram::memory_gym
