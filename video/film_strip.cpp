#include "video/film_strip.h"

#include <algorithm>
#include <stdexcept>

#include "video/board_view.h"
#include "video/drawing.h"

namespace engram {
namespace {

// Lengths in pixels.
constexpr int kMargin = 20;
constexpr int kGap = 12;  // between a board and the observation beside it
constexpr int kColumnGap = 32;
constexpr int kRowGap = 24;
constexpr int kTitleHeight = 30;
constexpr int kCaptionHeight = 22;
constexpr int kBoardWidth = 242;
constexpr int kBoardHeight = 154;
constexpr int kLargestCell = 22;
constexpr int kObservationSize = 110;
constexpr int kTileWidth = kBoardWidth + kGap + kObservationSize;

BoardLayout layout_of(const FrameContents& moment) {
  return {moment.board.rows(), moment.board.columns(), kBoardWidth, kBoardHeight, kLargestCell};
}

int tile_height(const FilmStripRow& row) {
  const Box room{0, 0, kObservationSize, kObservationSize};
  int height = has_image(row.observation) ? observation_box(row.observation, room).height : 0;
  for (const FrameContents& moment : row.moments) height = std::max(height, layout_of(moment).box().height);
  return height;
}

}  // namespace

RgbImage film_strip(const std::vector<FilmStripRow>& rows) {
  std::size_t columns = 0;
  int height = 2 * kMargin - kRowGap;
  for (const FilmStripRow& row : rows) {
    columns = std::max(columns, row.moments.size());
    height += kTitleHeight + kCaptionHeight + tile_height(row) + kRowGap;
  }
  if (columns == 0) throw std::invalid_argument("film_strip: nothing to show");
  const int width = 2 * kMargin + static_cast<int>(columns) * (kTileWidth + kColumnGap) - kColumnGap;

  RgbImage image(width, height, palette::kBackground);
  int y = kMargin;
  for (const FilmStripRow& row : rows) {
    draw_text(image, row.title, {kMargin, y, width - 2 * kMargin, kTitleHeight - 10}, {12, palette::kText, true});
    y += kTitleHeight;
    int x = kMargin;
    for (const FrameContents& moment : row.moments) {
      const std::string caption = "step " + std::to_string(moment.step) + ", " + moment.phase;
      draw_text(image, caption, {x, y, kBoardWidth, kCaptionHeight - 6}, {9, palette::kMuted});
      draw_text(image, "agent sees", {x + kBoardWidth + kGap, y, kObservationSize, kCaptionHeight - 6},
                {9, palette::kMuted});
      BoardLayout layout = layout_of(moment);
      layout.place(x, y + kCaptionHeight);
      draw_board(image, layout, moment.board);
      mark_view(image, layout, moment.board, row.observation, moment.observation);
      draw_observation(image, row.observation, moment.observation,
                       {x + kBoardWidth + kGap, y + kCaptionHeight, kObservationSize, kObservationSize}, 1);
      x += kTileWidth + kColumnGap;
    }
    y += kCaptionHeight + tile_height(row) + kRowGap;
  }
  return image;
}

}  // namespace engram
