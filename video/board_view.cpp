#include "video/board_view.h"

#include <algorithm>
#include <cstring>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>

#include "video/drawing.h"

namespace engram {
namespace {

constexpr int kSmallestGriddedCell = 8;  // pixels; smaller cells are drawn without lines between them

Rgb darkened(Rgb colour) {
  const auto part = [](int value) { return static_cast<std::uint8_t>(value * 88 / 100); };
  return {part(colour.red), part(colour.green), part(colour.blue)};
}

bool is_image(const ObservationSpec& spec) {
  return spec.type == ElementType::kUint8 && spec.shape.size() == 3 && (spec.shape[0] == 1 || spec.shape[0] == 3);
}

int image_height(const ObservationSpec& spec) { return static_cast<int>(spec.shape[1]); }
int image_width(const ObservationSpec& spec) { return static_cast<int>(spec.shape[2]); }

Rgb image_pixel(const ObservationSpec& spec, std::span<const std::byte> observation, int row, int column) {
  const std::size_t plane = static_cast<std::size_t>(spec.shape[1] * spec.shape[2]);
  const std::size_t offset = static_cast<std::size_t>(row * spec.shape[2] + column);
  const auto channel = [&](std::size_t c) { return std::to_integer<std::uint8_t>(observation[c * plane + offset]); };
  if (spec.shape[0] == 1) return {channel(0), channel(0), channel(0)};
  return {channel(0), channel(1), channel(2)};
}

bool view_agrees(const Canvas& board, const ObservationSpec& spec, std::span<const std::byte> observation,
                 CellPosition centre) {
  for (int row = 0; row < image_height(spec); ++row) {
    for (int column = 0; column < image_width(spec); ++column) {
      const int board_row = centre.row + row - image_height(spec) / 2;
      const int board_column = centre.column + column - image_width(spec) / 2;
      const bool on_board =
          board_row >= 0 && board_row < board.rows() && board_column >= 0 && board_column < board.columns();
      if (on_board && !(board.at(board_row, board_column) == image_pixel(spec, observation, row, column))) return false;
    }
  }
  return true;
}

void draw_vector(RgbImage& image, const ObservationSpec& spec, std::span<const std::byte> observation, const Box& box,
                 int scale) {
  const int row_height = 28 * scale;
  const int elements = static_cast<int>(spec.elements());
  const int fitting = std::max(1, box.height / row_height);
  const int shown = elements <= fitting ? elements : fitting - 1;
  for (int i = 0; i < shown; ++i) {
    double value = 0;
    if (spec.type == ElementType::kUint8) {
      value = std::to_integer<int>(observation[static_cast<std::size_t>(i)]);
    } else {
      float element = 0;
      std::memcpy(&element, observation.data() + sizeof(float) * static_cast<std::size_t>(i), sizeof(float));
      value = element;
    }
    const Box row{box.x, box.y + i * row_height, box.width, row_height};
    draw_text(image, std::string("x").append(std::to_string(i)), {row.x, row.y, 26 * scale, row.height},
              {10 * scale, palette::kMuted});
    draw_text(image, rounded_number_text(value), {row.x + 26 * scale, row.y, 44 * scale, row.height}, {10 * scale},
              Align::kRight);
    // A bar from the middle: -1 at the left end, +1 at the right end.
    const Box track{row.x + 80 * scale, row.y + 10 * scale, row.width - 80 * scale, row.height - 20 * scale};
    const int middle = track.x + track.width / 2;
    const int length = static_cast<int>(std::clamp(value, -1.0, 1.0) * (track.width / 2));
    fill_box(image, track, palette::kTrack);
    fill_box(image, {std::min(middle, middle + length), track.y, std::abs(length), track.height}, palette::kAccent);
    fill_box(image, {middle, track.y - 2 * scale, scale, track.height + 4 * scale}, palette::kMuted);
  }
  if (shown < elements) {
    draw_text(image, "and " + std::to_string(elements - shown) + " more",
              {box.x, box.y + shown * row_height, box.width, row_height}, {10 * scale, palette::kMuted});
  }
}

}  // namespace

BoardLayout::BoardLayout(int rows, int columns, int max_width, int max_height, int max_cell)
    : rows_(rows), columns_(columns), bands_((columns + kMaxColumns - 1) / kMaxColumns) {
  if (rows < 1 || columns < 1) throw std::invalid_argument("BoardLayout: a board without cells");
  band_columns_ = (columns + bands_ - 1) / bands_;
  cell_ = std::max(1, std::min({max_cell, max_width / band_columns_, max_height / rows}));
  gap_ = cell_;
}

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
}

std::optional<CellPosition> find_view_centre(const Canvas& board, const ObservationSpec& spec,
                                             std::span<const std::byte> observation) {
  if (!is_image(spec) || image_height(spec) % 2 == 0 || image_width(spec) % 2 == 0) return {};
  std::optional<CellPosition> found;
  for (int row = 0; row < board.rows(); ++row) {
    for (int column = 0; column < board.columns(); ++column) {
      if (!view_agrees(board, spec, observation, {row, column})) continue;
      if (found) return {};
      found = CellPosition{row, column};
    }
  }
  return found;
}

void mark_view(RgbImage& image, const BoardLayout& layout, const Canvas& board, const ObservationSpec& spec,
               std::span<const std::byte> observation) {
  if (layout.folded()) return;
  const auto centre = find_view_centre(board, spec, observation);
  if (!centre) return;
  const int top = std::max(0, centre->row - image_height(spec) / 2);
  const int left = std::max(0, centre->column - image_width(spec) / 2);
  const Box first = layout.cell(top, left);
  const Box last = layout.cell(std::min(board.rows() - 1, centre->row + image_height(spec) / 2),
                               std::min(board.columns() - 1, centre->column + image_width(spec) / 2));
  outline_box(image, {first.x, first.y, last.right() - first.x, last.bottom() - first.y}, palette::kAccent,
              std::max(2, first.width / 14));
}

Box observation_box(const ObservationSpec& spec, const Box& box) {
  if (!is_image(spec)) return box;
  const int height = image_height(spec);
  const int width = image_width(spec);
  const int zoom = std::min(box.width / width, box.height / height);
  if (zoom >= 1) return {box.x, box.y, zoom * width, zoom * height};
  const double shrink = std::min(static_cast<double>(box.width) / width, static_cast<double>(box.height) / height);
  return {box.x, box.y, std::max(1, static_cast<int>(shrink * width)), std::max(1, static_cast<int>(shrink * height))};
}

void draw_observation(RgbImage& image, const ObservationSpec& spec, std::span<const std::byte> observation,
                      const Box& box, int scale) {
  if (observation.size() != static_cast<std::size_t>(spec.bytes())) {
    throw std::invalid_argument("draw_observation: " + std::to_string(observation.size()) + " bytes instead of " +
                                std::to_string(spec.bytes()));
  }
  if (spec.shape.size() == 1) return draw_vector(image, spec, observation, box, scale);
  if (!is_image(spec))
    throw std::invalid_argument("draw_observation: neither a vector nor an image of 1 or 3 channels");

  cv::Mat small(image_height(spec), image_width(spec), CV_8UC3);
  for (int row = 0; row < small.rows; ++row) {
    for (int column = 0; column < small.cols; ++column) {
      const Rgb colour = image_pixel(spec, observation, row, column);
      small.at<cv::Vec3b>(row, column) = {colour.red, colour.green, colour.blue};
    }
  }
  const Box target = observation_box(spec, box);
  RgbImage picture(target.width, target.height, palette::kBackground);
  cv::Mat view(picture.height, picture.width, CV_8UC3, picture.pixels.data());
  cv::resize(small, view, view.size(), 0, 0, target.width >= small.cols ? cv::INTER_NEAREST : cv::INTER_AREA);
  paste(image, picture, target.x, target.y);
  outline_box(image, {target.x - scale, target.y - scale, target.width + 2 * scale, target.height + 2 * scale},
              palette::kMuted, scale);
}

}  // namespace engram
