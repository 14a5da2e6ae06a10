#include "video/board_view.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <opencv2/imgproc.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/shown_observation.h"
#include "video/drawing.h"

namespace engram {
namespace {

bool view_agrees(const Canvas& board, const Canvas& view, CellPosition centre) {
  for (int row = 0; row < view.rows(); ++row) {
    for (int column = 0; column < view.columns(); ++column) {
      const int board_row = centre.row + row - view.rows() / 2;
      const int board_column = centre.column + column - view.columns() / 2;
      const bool on_board =
          board_row >= 0 && board_row < board.rows() && board_column >= 0 && board_column < board.columns();
      if (on_board && !(board.at(board_row, board_column) == view.at(row, column))) return false;
    }
  }
  return true;
}

// Capitals are kLineText pixels high, rows kLineRow apart, and lines kLineGap more.
constexpr int kLineText = 9, kLineRow = 14, kLineGap = 4;

// What has no room is left out, which the last row then says.
void draw_lines(RgbImage& image, const std::vector<std::string>& lines, const Box& box, int scale) {
  const TextStyle style{kLineText * scale};
  std::vector<std::pair<Box, std::string>> rows;
  Box row{box.x, box.y, box.width, kLineRow * scale};
  for (const std::string& line : lines) {
    for (const std::string& text : wrapped_text(line, style, box.width)) {
      rows.emplace_back(row, text);
      row.y += row.height;
    }
    row.y += kLineGap * scale;
  }
  const auto beyond =
      std::ranges::find_if(rows, [&](const auto& placed) { return placed.first.bottom() > box.bottom(); });
  if (beyond != rows.end() && beyond != rows.begin()) std::prev(beyond)->second += " ..";
  rows.erase(beyond, rows.end());
  for (const auto& [place, text] : rows) draw_text(image, text, place, style);
}

}  // namespace

std::optional<CellPosition> find_view_centre(const Canvas& board, const ObservationSpec& spec,
                                             std::span<const std::byte> observation) {
  const auto view = first_image(spec, observation);
  if (!view || view->rows() % 2 == 0 || view->columns() % 2 == 0) return {};
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
  const Canvas view = *first_image(spec, observation);
  const int top = std::max(0, centre->row - view.rows() / 2);
  const int left = std::max(0, centre->column - view.columns() / 2);
  const Box first = layout.cell(top, left);
  const Box last = layout.cell(std::min(board.rows() - 1, centre->row + view.rows() / 2),
                               std::min(board.columns() - 1, centre->column + view.columns() / 2));
  outline_box(image, {first.x, first.y, last.right() - first.x, last.bottom() - first.y}, palette::kAccent,
              std::max(2, first.width / 14));
}

Box seen_box(const ShownObservation& seen, const Box& box, int scale) {
  if (!seen.picture) {
    int height = -kLineGap * scale;
    for (const std::string& line : seen.lines) {
      const auto rows = wrapped_text(line, {kLineText * scale}, box.width).size();
      height += (static_cast<int>(rows) * kLineRow + kLineGap) * scale;
    }
    return {box.x, box.y, box.width, std::clamp(height, 0, box.height)};
  }
  const int height = seen.picture->rows(), width = seen.picture->columns();
  const int zoom = std::min(box.width / width, box.height / height);
  if (zoom >= 1) return {box.x, box.y, zoom * width, zoom * height};
  const double shrink = std::min(static_cast<double>(box.width) / width, static_cast<double>(box.height) / height);
  return {box.x, box.y, std::max(1, static_cast<int>(shrink * width)), std::max(1, static_cast<int>(shrink * height))};
}

void draw_seen(RgbImage& image, const ShownObservation& seen, const Box& box, int scale) {
  const Box target = seen_box(seen, box, scale);
  if (!seen.picture) return draw_lines(image, seen.lines, target, scale);

  cv::Mat small(seen.picture->rows(), seen.picture->columns(), CV_8UC3);
  for (int row = 0; row < small.rows; ++row) {
    for (int column = 0; column < small.cols; ++column) {
      const Rgb colour = seen.picture->at(row, column);
      small.at<cv::Vec3b>(row, column) = {colour.red, colour.green, colour.blue};
    }
  }
  RgbImage picture(target.width, target.height, palette::kBackground);
  cv::Mat view(picture.height, picture.width, CV_8UC3, picture.pixels.data());
  cv::resize(small, view, view.size(), 0, 0, target.width >= small.cols ? cv::INTER_NEAREST : cv::INTER_AREA);
  paste(image, picture, target.x, target.y);
  if (const auto& arrow = seen.picture->arrow(); arrow && target.width >= small.cols) {
    const int cell = target.width / small.cols;
    fill_arrow(image, {target.x + cell * arrow->column, target.y + cell * arrow->row, cell, cell}, arrow->facing,
               ink_on(seen.picture->at(arrow->row, arrow->column)));
  }
  outline_box(image, {target.x - scale, target.y - scale, target.width + 2 * scale, target.height + 2 * scale},
              palette::kMuted, scale);
}

}  // namespace engram
