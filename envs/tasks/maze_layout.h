// Random mazes of rooms and passages, for tasks that draw a new one each episode: S x S cells, S odd, within an outer
// wall. Every cell with odd coordinates is a node, of which there are at most 8 x 8: sets of nodes are 64 bits, bit
// 8 j + i for the cell (2 i + 1, 2 j + 1). Between neighbouring nodes lies a cell that is a passage or a wall.
//
// After labmaze's RandomMaze, which DeepMind Lab and Memory Maze draw from: rooms that do not touch, a maze over all
// that is left, some more passages, and no dead ends.
#pragma once

#include <cstdint>

#include "base/host_device.h"
#include "base/rng.h"
#include "envs/tasks/minigrid/minigrid_view.h"

namespace engram::maze {

inline constexpr int kMaxSize = 15, kMaxRooms = 9;

struct Cell {
  std::uint8_t x, y;
  friend constexpr bool operator==(const Cell&, const Cell&) = default;
};

// Its upper left cell and its sides, in cells.
struct Room {
  std::uint8_t x, y, width, height;
};
struct Rooms {
  Room room[kMaxRooms];
  std::int32_t count;
};

HOST_DEVICE inline Cell draw_cell(const Room& room, Rng& rng) {
  const int x = minigrid::below(room.width, rng);
  return {static_cast<std::uint8_t>(room.x + x), static_cast<std::uint8_t>(room.y + minigrid::below(room.height, rng))};
}

HOST_DEVICE inline int count_bits(std::uint64_t bits) {
  bits -= bits >> 1 & 0x5555555555555555u;
  bits = (bits & 0x3333333333333333u) + (bits >> 2 & 0x3333333333333333u);
  return static_cast<int>(((bits + (bits >> 4)) & 0x0F0F0F0F0F0F0F0Fu) * 0x0101010101010101u >> 56);
}
// The lowest bit but `rank`, alone.
HOST_DEVICE inline std::uint64_t bit_of_rank(std::uint64_t bits, int rank) {
  for (; rank > 0; --rank) bits &= bits - 1;
  return bits & (0 - bits);
}

HOST_DEVICE inline std::uint64_t nodes_of(const Room& room) {
  const std::uint64_t row = ((1u << (room.width + 1) / 2) - 1) << room.x / 2;
  std::uint64_t nodes = 0;
  for (int j = 0; j < (room.height + 1) / 2; ++j) nodes |= row << 8 * (room.y / 2 + j);
  return nodes;
}

// Rooms of 3 x 3 cells up to largest x largest, all sizes and places being equally likely, that have no node in common:
// at least `least`, at most `most` of them. least: few enough that so many fit.
HOST_DEVICE inline Rooms draw_rooms(int size, int least, int most, int largest, Rng& rng) {
  constexpr int kTries = 32;
  const int nodes = (size + 1) / 2;
  for (;;) {
    Rooms rooms{};
    std::uint64_t taken = 0;
    for (int i = 0; i < kTries && rooms.count < most; ++i) {
      const int width = 2 + minigrid::below(largest / 2, rng),
                height = 2 + minigrid::below(largest / 2, rng);  // in nodes
      const int x = minigrid::below(nodes - width + 1, rng), y = minigrid::below(nodes - height + 1, rng);
      const Room room = {static_cast<std::uint8_t>(2 * x + 1), static_cast<std::uint8_t>(2 * y + 1),
                         static_cast<std::uint8_t>(2 * width - 1), static_cast<std::uint8_t>(2 * height - 1)};
      if ((nodes_of(room) & taken) != 0) continue;
      taken |= nodes_of(room);
      rooms.room[rooms.count++] = room;
    }
    if (rooms.count >= least) return rooms;
  }
}

// Which cells are floor, by rows and by columns; all others are wall.
struct Layout {
  std::uint16_t row[kMaxSize + 2], column[kMaxSize + 2];

  HOST_DEVICE bool is_floor(int x, int y) const { return (row[y] >> x & 1) != 0; }
  HOST_DEVICE void dig(int x, int y) {
    row[y] = static_cast<std::uint16_t>(row[y] | 1 << x);
    column[x] = static_cast<std::uint16_t>(column[x] | 1 << y);
  }
  // The floor among the 7 x 7 cells ahead of the agent, bits as in minigrid::View.
  HOST_DEVICE std::uint64_t ahead_of(minigrid::Agent agent) const {
    const bool along_x = agent.direction % 2 == 0;
    const int sign = agent.direction < 2 ? 1 : -1, from = along_x ? agent.x : agent.y, at = along_x ? agent.y : agent.x;
    const bool reversed = agent.direction == 1 || agent.direction == 2;  // to the right the coordinate decreases
    const std::uint16_t* const lines = along_x ? column : row;
    std::uint64_t floor = 0;
    for (int f = 0; f < minigrid::kView; ++f) {
      // Beyond the maze lies what lies on its border: nothing but walls.
      const int beyond = from + sign * f, line = beyond < 0 ? 0 : beyond > kMaxSize + 1 ? kMaxSize + 1 : beyond;
      const std::uint32_t bits = static_cast<std::uint32_t>(lines[line]) << minigrid::kAside >> at;
      floor |= std::uint64_t{bits & 127} << 8 * f;
    }
    // Each byte's seven bits, mirrored.
    std::uint64_t mirrored = (floor & 0x5555555555555555u) << 1 | (floor >> 1 & 0x5555555555555555u);
    mirrored = (mirrored & 0x3333333333333333u) << 2 | (mirrored >> 2 & 0x3333333333333333u);
    mirrored = (mirrored & 0x0F0F0F0F0F0F0F0Fu) << 4 | (mirrored >> 4 & 0x0F0F0F0F0F0F0F0Fu);
    return floor ^ ((floor ^ mirrored >> 1) & (0 - std::uint64_t{reversed}));  // without a branch
  }
};

// Passages: bit of a node for the one to its right neighbour, and for that to the one below.
struct Passages {
  std::uint64_t right, down;
};
// The nodes that exactly one passage leads to.
HOST_DEVICE inline std::uint64_t dead_ends(const Passages& passages) {
  const std::uint64_t right = passages.right, left = passages.right << 1, down = passages.down, up = passages.down << 8;
  const std::uint64_t across = right ^ left, along = down ^ up;
  return (across ^ along) & ~(right & left) & ~(down & up);
}

HOST_DEVICE inline Layout draw_layout(int size, const Rooms& rooms, Rng& rng) {
  const int nodes = (size + 1) / 2;
  std::uint64_t all = 0, in_rooms = 0;
  for (int j = 0; j < nodes; ++j) all |= std::uint64_t{(1u << nodes) - 1} << 8 * j;
  for (int i = 0; i < rooms.count; ++i) in_rooms |= nodes_of(rooms.room[i]);
  const std::uint64_t has_right = all & all >> 1 & 0x7F7F7F7F7F7F7F7Fu, has_down = all & all >> 8;

  // A tree over rooms and nodes (Prim): any passage between what is reached and what is not, until all is.
  Passages passages{};
  std::uint64_t reached = nodes_of(rooms.room[0]);
  while (reached != all) {
    const std::uint64_t right = (reached ^ reached >> 1) & has_right, down = (reached ^ reached >> 8) & has_down;
    const int rights = count_bits(right), drawn = minigrid::below(rights + count_bits(down), rng);
    std::uint64_t added;  // both ends
    if (drawn < rights) {
      const std::uint64_t bit = bit_of_rank(right, drawn);
      passages.right |= bit;
      added = bit | bit << 1;
    } else {
      const std::uint64_t bit = bit_of_rank(down, drawn - rights);
      passages.down |= bit;
      added = bit | bit << 8;
    }
    reached |= added;
    for (int i = 0; i < rooms.count; ++i) {
      const std::uint64_t of_room = nodes_of(rooms.room[i]);
      if ((of_room & added) != 0) reached |= of_room;
    }
  }
  // One in sixteen of the walls that are left is a passage, too.
  for (const bool rightwards : {true, false}) {
    std::uint64_t more = rightwards ? has_right : has_down;
    for (int i = 0; i < 4; ++i) {
      const std::uint64_t low = rng.next();
      more &= std::uint64_t{rng.next()} << 32 | low;
    }
    (rightwards ? passages.right : passages.down) |= more;
  }
  // Passages that lead nowhere are filled.
  std::uint64_t floor = all;
  for (std::uint64_t dead; (dead = dead_ends(passages) & ~in_rooms) != 0;) {
    floor &= ~dead;
    passages.right &= ~(dead | dead >> 1);
    passages.down &= ~(dead | dead >> 8);
  }

  Layout layout{};
  for (int j = 0; j < nodes; ++j)
    for (int i = 0; i < nodes; ++i) {
      const int bit = 8 * j + i, x = 2 * i + 1, y = 2 * j + 1;
      if ((floor >> bit & 1) != 0) layout.dig(x, y);
      if ((passages.right >> bit & 1) != 0) layout.dig(x + 1, y);
      if ((passages.down >> bit & 1) != 0) layout.dig(x, y + 1);
    }
  for (int i = 0; i < rooms.count; ++i)
    for (int y = 0; y < rooms.room[i].height; ++y)
      for (int x = 0; x < rooms.room[i].width; ++x) layout.dig(rooms.room[i].x + x, rooms.room[i].y + y);
  return layout;
}

}  // namespace engram::maze
