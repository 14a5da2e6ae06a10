// Chosen moments of episodes in one picture; each is its board, what the agent sees of it, and a caption.
#pragma once

#include <string>
#include <vector>

#include "envs/vec/vec_env.h"
#include "video/frame_painter.h"
#include "video/rgb_image.h"

namespace engram {

struct FilmStripRow {
  std::string title;
  ObservationSpec observation;
  std::vector<FrameContents> moments;  // their decisions are not shown
};

// An episode a row. Boards that are narrower than the widest stand at the left of their place. Throws
// std::invalid_argument for a strip without moments.
RgbImage film_strip(const std::vector<FilmStripRow>& rows);

// The first moments of several episodes, `columns` beside one another, each under its title. Throws
// std::invalid_argument for an episode without moments, and for none.
RgbImage film_grid(const std::vector<FilmStripRow>& episodes, int columns);

}  // namespace engram
