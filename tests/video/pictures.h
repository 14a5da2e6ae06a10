// Boards and observations made by hand, for the tests of this folder.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "envs/vec/vec_env.h"

namespace engram::test {

inline constexpr Rgb kFloor{204, 204, 204};
inline constexpr Rgb kWall{25, 25, 25};
inline constexpr Rgb kPlayer{228, 148, 109};
inline constexpr Rgb kGoal{255, 0, 0};

// '#' wall, '+' player, 'g' goal, anything else floor.
inline Canvas board_of(const std::vector<std::string>& rows) {
  Canvas board;
  board.resize(static_cast<int>(rows.size()), static_cast<int>(rows[0].size()), kFloor);
  for (int row = 0; row < board.rows(); ++row) {
    for (int column = 0; column < board.columns(); ++column) {
      const char symbol = rows[static_cast<std::size_t>(row)][static_cast<std::size_t>(column)];
      if (symbol == '#') board.set(row, column, kWall);
      if (symbol == '+') board.set(row, column, kPlayer);
      if (symbol == 'g') board.set(row, column, kGoal);
    }
  }
  return board;
}

// The channel-first crop of size x size cells around (row, column); floor outside the board.
inline std::vector<std::byte> crop_of(const Canvas& board, int row, int column, int size) {
  std::vector<std::byte> crop(static_cast<std::size_t>(3 * size * size));
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int r = row + y - size / 2, c = column + x - size / 2;
      const bool inside = r >= 0 && r < board.rows() && c >= 0 && c < board.columns();
      const Rgb colour = inside ? board.at(r, c) : kFloor;
      const std::size_t at = static_cast<std::size_t>(y * size + x), plane = static_cast<std::size_t>(size * size);
      crop[at] = std::byte{colour.red};
      crop[plane + at] = std::byte{colour.green};
      crop[2 * plane + at] = std::byte{colour.blue};
    }
  }
  return crop;
}

inline std::vector<std::byte> bytes_of(const std::vector<float>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

inline ObservationSpec crop_spec(int size) { return {ElementType::kUint8, single_part({3, size, size})}; }

inline Rgb middle(const auto& image, const auto& box) {
  return image.at(box.x + box.width / 2, box.y + box.height / 2);
}

}  // namespace engram::test
