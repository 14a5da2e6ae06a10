// Where the cells of a board lie in a picture, and the board drawn there. Plain C++.
#pragma once

#include "envs/task.h"
#include "video/rgb_image.h"

namespace engram {

// Where the cells of a board lie. A board of more than kMaxColumns columns is folded into bands of equal width, one
// below the other, so that a corridor of any length stays readable.
class BoardLayout {
 public:
  static constexpr int kMaxColumns = 80;

  // The largest square cells that fit into max_width x max_height (of a board that is not folded; each band of a
  // folded one fits by itself), at most max_cell pixels.
  BoardLayout(int rows, int columns, int max_width, int max_height, int max_cell);
  // Of a board in a film at this scale; and whether it stands beside the panels there, or above them.
  static BoardLayout of_film(int rows, int columns, int scale);
  static bool stands_beside_panels(int rows, int columns);

  // The picture's top left corner at (x, y).
  void place(int x, int y);

  Box box() const;
  Box cell(int row, int column) const;
  int rows() const { return rows_; }
  int columns() const { return columns_; }
  bool folded() const { return bands_ > 1; }

 private:
  int rows_;
  int columns_;
  int bands_;
  int band_columns_;
  int cell_;
  int gap_;  // between bands
  int x_ = 0;
  int y_ = 0;
};

// Throws std::invalid_argument if the board has another size than the layout.
void draw_board(RgbImage& image, const BoardLayout& layout, const Canvas& board);

// The whole board and nothing else, as a film at scale 1 shows it.
RgbImage board_picture(const Canvas& board);

// What stands out on a cell of that colour.
Rgb ink_on(Rgb colour);

}  // namespace engram
