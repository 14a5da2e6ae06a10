#include "video/film_strip.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>

#include "video/board_view.h"
#include "video/drawing.h"

namespace engram {
namespace {

// Lengths in pixels.
constexpr int kStripMargin = 20;
constexpr int kTileGap = 12;  // between a board and the observation beside it
constexpr int kColumnGap = 32;
constexpr int kRowGap = 24;
constexpr int kTitleHeight = 30;
constexpr int kCaptionHeight = 22;
constexpr int kTileBoardWidth = 242;
constexpr int kTileBoardHeight = 154;
constexpr int kTileLargestCell = 22;
constexpr int kTileObservationSize = 132;
constexpr int kTileWidth = kTileBoardWidth + kTileGap + kTileObservationSize;

BoardLayout layout_of(const FrameContents& moment) {
  return {moment.board.rows(), moment.board.columns(), kTileBoardWidth, kTileBoardHeight, kTileLargestCell};
}

int tile_height(const FrameContents& moment) {
  const Box room{0, 0, kTileObservationSize, kTileBoardHeight};
  return kCaptionHeight + std::max(layout_of(moment).box().height, seen_box(moment.seen, room, 1).height);
}
// Of the highest of a row.
int tile_height(std::span<const FrameContents> moments) {
  int height = 0;
  for (const FrameContents& moment : moments) height = std::max(height, tile_height(moment));
  return height;
}

int strip_width(int columns) { return 2 * kStripMargin + columns * (kTileWidth + kColumnGap) - kColumnGap; }
int column_at(int column) { return kStripMargin + column * (kTileWidth + kColumnGap); }

void draw_title(RgbImage& image, const std::string& title, const Box& box) {
  draw_text(image, title, box, {12, palette::kText, true});
}

void draw_tile(RgbImage& image, const ObservationSpec& observation, const FrameContents& moment, int x, int y) {
  const int seen_x = x + kTileBoardWidth + kTileGap;
  const std::string caption = "step " + std::to_string(moment.step) + ", " + moment.phase;
  draw_text(image, caption, {x, y, kTileBoardWidth, kCaptionHeight - 6}, {9, palette::kMuted});
  draw_text(image, "agent sees", {seen_x, y, kTileObservationSize, kCaptionHeight - 6}, {9, palette::kMuted});
  BoardLayout layout = layout_of(moment);
  layout.place(x, y + kCaptionHeight);
  draw_board(image, layout, moment.board);
  mark_view(image, layout, moment.board, observation, moment.observation);
  draw_seen(image, moment.seen, {seen_x, y + kCaptionHeight, kTileObservationSize, kTileBoardHeight}, 1);
}

}  // namespace

RgbImage film_strip(const std::vector<FilmStripRow>& rows) {
  std::size_t columns = 0;
  int height = 2 * kStripMargin - kRowGap;
  for (const FilmStripRow& row : rows) {
    columns = std::max(columns, row.moments.size());
    height += kTitleHeight + tile_height(row.moments) + kRowGap;
  }
  if (columns == 0) throw std::invalid_argument("film_strip: nothing to show");

  RgbImage image(strip_width(static_cast<int>(columns)), height, palette::kBackground);
  int y = kStripMargin;
  for (const FilmStripRow& row : rows) {
    draw_title(image, row.title, {kStripMargin, y, image.width - 2 * kStripMargin, kTitleHeight - 10});
    y += kTitleHeight;
    for (int column = 0; const FrameContents& moment : row.moments)
      draw_tile(image, row.observation, moment, column_at(column++), y);
    y += tile_height(row.moments) + kRowGap;
  }
  return image;
}

RgbImage film_grid(const std::vector<FilmStripRow>& episodes, int columns) {
  std::vector<int> row_heights;
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    if (episodes[i].moments.empty()) throw std::invalid_argument("film_grid: nothing to show of an episode");
    if (i % static_cast<std::size_t>(columns) == 0) row_heights.push_back(0);
    row_heights.back() = std::max(row_heights.back(), tile_height(episodes[i].moments.front()));
  }
  if (episodes.empty()) throw std::invalid_argument("film_grid: nothing to show");

  int height = 2 * kStripMargin - kRowGap;
  for (const int row_height : row_heights) height += kTitleHeight + row_height + kRowGap;
  RgbImage image(strip_width(columns), height, palette::kBackground);
  int y = kStripMargin;
  for (std::size_t i = 0; i < episodes.size(); ++i) {
    const auto column = static_cast<int>(i) % columns;
    if (i > 0 && column == 0) y += kTitleHeight + row_heights[i / static_cast<std::size_t>(columns) - 1] + kRowGap;
    draw_title(image, episodes[i].title, {column_at(column), y, kTileWidth, kTitleHeight - 10});
    draw_tile(image, episodes[i].observation, episodes[i].moments.front(), column_at(column), y + kTitleHeight);
  }
  return image;
}

}  // namespace engram
