// MemoryPanel: what an agent's memory does over an episode, as strips above one another, all on the time axis of the
// episode: its first step at the left end, its last at the right.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "video/rgb_image.h"

namespace engram {

// How the numbers of a strip become shades.
enum class Shades {
  kRange,   // `low` is the lightest, `high` the darkest
  kRoot,    // 0 is the lightest, `high` the darkest, by the square root of the share, which shows small ones
  kSigned,  // 0 is the lightest, `high` the darkest blue, -`high` the darkest red
};

// One quantity, with a row for each head or channel: a number for each step of the episode, the first step first.
struct MemoryStrip {
  std::string label;
  Shades shades = Shades::kRange;
  float low = 0;
  float high = 1;
  std::vector<std::vector<float>> rows;
};

class MemoryPanel {
 public:
  // A strip for each entry of `rows`, which says how many rows it has: many rows make a strip higher.
  MemoryPanel(const std::vector<int>& rows, int scale);

  int height() const { return height_; }
  void place(const Box& box) { box_ = box; }

  // Of each strip the first `known` steps. Where a pixel stands for several numbers, that of the greatest magnitude
  // shows. Throws std::invalid_argument for other strips than the panel's, and for numbers of fewer steps than `known`
  // or of unequally many; without strips there is nothing to see yet.
  void paint(RgbImage& image, const std::vector<MemoryStrip>& strips, int known) const;

  // Where the numbers of one strip stand.
  Box strip(int index) const;

 private:
  void paint_strip(RgbImage& image, const Box& area, const MemoryStrip& strip, std::size_t known) const;

  std::vector<int> rows_;
  std::vector<int> top_;  // of each strip, below the panel's
  int scale_;
  int height_ = 0;
  Box box_;
};

// Of a share: 0 has the lightest shade, 1 the darkest, -1 the darkest of negative numbers.
Rgb memory_shade(Shades shades, double share);

}  // namespace engram
