// How a board and an agent's observation look in a picture.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "envs/vec/vec_env.h"
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

struct CellPosition {
  int row;
  int column;
};

// Which cell of the board an observation's image (3 x odd height x odd width, a pixel a cell) is centred on: the one
// place where every pixel that lies on the board equals the board's colour. Empty for other observations, and where
// no place or more than one agrees.
std::optional<CellPosition> find_view_centre(const Canvas& board, const ObservationSpec& spec,
                                             std::span<const std::byte> observation);

// Frames the part of the board that the observation shows.
void mark_view(RgbImage& image, const BoardLayout& layout, const Canvas& board, const ObservationSpec& spec,
               std::span<const std::byte> observation);

// Where draw_seen draws: a picture in the largest box of its proportions inside `box`, from the top left, by whole
// pixels where there is room; lines over the whole width, as far down as they need and `box` allows.
Box seen_box(const ShownObservation& seen, const Box& box, int scale);

// What an agent sees: its picture, scaled; where there is none its lines, wrapped, as many as fit.
void draw_seen(RgbImage& image, const ShownObservation& seen, const Box& box, int scale);

}  // namespace engram
