#include "video/board_layout.h"

#include <algorithm>
#include <cstdint>
#include <stdexcept>

#include "envs/shown_observation.h"
#include "video/shapes.h"

namespace engram {
namespace {

// Of a board in a film, at scale 1, in pixels.
constexpr int kWideWidth = 912;          // above the panels it may be this wide
constexpr int kBesidePanelsWidth = 484;  // beside them this wide ...
constexpr int kMostHeight = 420;         // ... and either this high
constexpr int kLargestCell = 44;

constexpr int kSmallestGriddedCell = 8;  // pixels; smaller cells are drawn without lines between them

Rgb darkened(Rgb colour) {
  const auto part = [](int value) { return static_cast<std::uint8_t>(value * 88 / 100); };
  return {part(colour.red), part(colour.green), part(colour.blue)};
}

}  // namespace

Rgb ink_on(Rgb colour) { return is_dark(colour) ? palette::kOnColour : palette::kText; }

BoardLayout::BoardLayout(int rows, int columns, int max_width, int max_height, int max_cell)
    : rows_(rows), columns_(columns), bands_((columns + kMaxColumns - 1) / kMaxColumns) {
  if (rows < 1 || columns < 1) throw std::invalid_argument("BoardLayout: a board without cells");
  band_columns_ = (columns + bands_ - 1) / bands_;
  cell_ = std::max(1, std::min({max_cell, max_width / band_columns_, max_height / rows}));
  gap_ = cell_;
}

BoardLayout BoardLayout::of_film(int rows, int columns, int scale) {
  return {rows, columns, scale * (stands_beside_panels(rows, columns) ? kBesidePanelsWidth : kWideWidth),
          scale * kMostHeight, scale * kLargestCell};
}

bool BoardLayout::stands_beside_panels(int rows, int columns) { return columns <= 2 * rows; }

void BoardLayout::place(int x, int y) {
  x_ = x;
  y_ = y;
}

Box BoardLayout::box() const { return {x_, y_, band_columns_ * cell_, bands_ * rows_ * cell_ + (bands_ - 1) * gap_}; }

Box BoardLayout::cell(int row, int column) const {
  const int band = column / band_columns_;
  return {x_ + (column % band_columns_) * cell_, y_ + band * (rows_ * cell_ + gap_) + row * cell_, cell_, cell_};
}

void draw_board(RgbImage& image, const BoardLayout& layout, const Canvas& board) {
  if (board.rows() != layout.rows() || board.columns() != layout.columns()) {
    throw std::invalid_argument("draw_board: the board has another size than its layout");
  }
  for (int row = 0; row < board.rows(); ++row) {
    for (int column = 0; column < board.columns(); ++column) {
      const Box cell = layout.cell(row, column);
      const Rgb colour = board.at(row, column);
      fill_box(image, cell, colour);
      if (cell.width >= kSmallestGriddedCell) {
        fill_box(image, {cell.x, cell.y, cell.width, 1}, darkened(colour));
        fill_box(image, {cell.x, cell.y, 1, cell.height}, darkened(colour));
      }
    }
  }
  if (const auto& arrow = board.arrow())
    fill_arrow(image, layout.cell(arrow->row, arrow->column), arrow->facing,
               ink_on(board.at(arrow->row, arrow->column)));
}

RgbImage board_picture(const Canvas& board) {
  const BoardLayout layout = BoardLayout::of_film(board.rows(), board.columns(), 1);
  RgbImage image(layout.box().width, layout.box().height, palette::kBackground);
  draw_board(image, layout, board);
  return image;
}

}  // namespace engram
