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

// An image of 1 or 3 channels, of a pixel each.
struct ImageView {
  int channels, height, width;
  std::span<const std::byte> bytes;

  Rgb pixel(int row, int column) const {
    const auto plane = static_cast<std::size_t>(height) * width,
               offset = static_cast<std::size_t>(row) * width + column;
    const auto channel = [&](std::size_t c) { return std::to_integer<std::uint8_t>(bytes[c * plane + offset]); };
    if (channels == 1) return {channel(0), channel(0), channel(0)};
    return {channel(0), channel(1), channel(2)};
  }
};

// The first part of an observation that can be shown as an image.
struct ImagePlace {
  int channels, height, width;
  std::size_t first;  // its first byte
};
std::optional<ImagePlace> find_image(const ObservationSpec& spec) {
  if (spec.type != ElementType::kUint8) return {};
  std::size_t first = 0;
  for (const ObservationPart& part : spec.parts) {
    if (part.kind == PartKind::kImage && (part.shape[0] == 1 || part.shape[0] == 3))
      return ImagePlace{static_cast<int>(part.shape[0]), static_cast<int>(part.shape[1]),
                        static_cast<int>(part.shape[2]), first};
    first += static_cast<std::size_t>(part.elements());
  }
  return {};
}
std::optional<ImageView> image_of(const ObservationSpec& spec, std::span<const std::byte> observation) {
  const auto place = find_image(spec);
  if (!place) return {};
  const auto bytes = static_cast<std::size_t>(place->channels) * place->height * place->width;
  return ImageView{place->channels, place->height, place->width, observation.subspan(place->first, bytes)};
}

bool view_agrees(const Canvas& board, const ImageView& view, CellPosition centre) {
  for (int row = 0; row < view.height; ++row) {
    for (int column = 0; column < view.width; ++column) {
      const int board_row = centre.row + row - view.height / 2;
      const int board_column = centre.column + column - view.width / 2;
      const bool on_board =
          board_row >= 0 && board_row < board.rows() && board_column >= 0 && board_column < board.columns();
      if (on_board && !(board.at(board_row, board_column) == view.pixel(row, column))) return false;
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
  const auto view = image_of(spec, observation);
  if (!view || view->height % 2 == 0 || view->width % 2 == 0) return {};
  std::optional<CellPosition> found;
  for (int row = 0; row < board.rows(); ++row) {
    for (int column = 0; column < board.columns(); ++column) {
      if (!view_agrees(board, *view, {row, column})) continue;
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
  const ImagePlace view = *find_image(spec);
  const int top = std::max(0, centre->row - view.height / 2);
  const int left = std::max(0, centre->column - view.width / 2);
  const Box first = layout.cell(top, left);
  const Box last = layout.cell(std::min(board.rows() - 1, centre->row + view.height / 2),
                               std::min(board.columns() - 1, centre->column + view.width / 2));
  outline_box(image, {first.x, first.y, last.right() - first.x, last.bottom() - first.y}, palette::kAccent,
              std::max(2, first.width / 14));
}

bool has_image(const ObservationSpec& spec) { return find_image(spec).has_value(); }

Box observation_box(const ObservationSpec& spec, const Box& box) {
  const auto place = find_image(spec);
  if (!place) return box;
  const int height = place->height, width = place->width;
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
  const auto shown = image_of(spec, observation);
  if (!shown) return draw_vector(image, spec, observation, box, scale);

  cv::Mat small(shown->height, shown->width, CV_8UC3);
  for (int row = 0; row < small.rows; ++row) {
    for (int column = 0; column < small.cols; ++column) {
      const Rgb colour = shown->pixel(row, column);
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
