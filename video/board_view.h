// How an agent's observation looks in a picture, beside the board that it is of.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "envs/vec/vec_env.h"
#include "video/board_layout.h"
#include "video/rgb_image.h"

namespace engram {

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
