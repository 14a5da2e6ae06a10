// MemoryPanel: what an agent's memory does over an episode, as strips above one another, all on the time axis of the
// episode: the first step at the left end, the longest episode's last one at the right.
#pragma once

#include <string>
#include <vector>

#include "video/rgb_image.h"

namespace engram {

// One quantity, with a row for each head: a number for each step of the episode so far, the first step first.
struct MemoryStrip {
  std::string label;
  float darkest = 1;         // the value of the darkest shade; 0 is the lightest
  bool square_root = false;  // of the share of `darkest`: shows small values
  std::vector<std::vector<float>> rows;
};

class MemoryPanel {
 public:
  // `steps`: of the longest episode.
  MemoryPanel(int strips, int steps, int scale) : strips_(strips), steps_(steps), scale_(scale) {}

  int height() const;
  void place(const Box& box) { box_ = box; }

  // Fewer strips than the panel has leave the others empty; throws std::invalid_argument for more, and for a row of
  // more numbers than the episode has steps.
  void paint(RgbImage& image, const std::vector<MemoryStrip>& strips) const;

  // Where the numbers of one strip stand.
  Box strip(int index) const;

 private:
  int strips_;
  int steps_;
  int scale_;
  Box box_;
};

}  // namespace engram
