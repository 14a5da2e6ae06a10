// What a person who plays sees in a terminal: pictures of coloured cells and lines of text, with ANSI escape sequences.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "envs/task.h"

namespace engram {

enum class ColourDepth { k256, k24Bit };

// 24 bits where the environment variable COLORTERM says so, 256 colours otherwise.
ColourDepth colour_depth(std::string_view colorterm);

// The nearest of the 256 colours' cube and greys.
int nearest_of_256(Rgb colour);

// A line for each row, each cell `cell_columns` blanks on its colour; all colours are off at the end of a line.
std::vector<std::string> picture_lines(const Canvas& picture, std::size_t cell_columns, ColourDepth depth);

struct LabelledPicture {
  std::string label;
  Canvas picture;
};

struct PlayScreen {
  std::string title;
  // Side by side. The first is what matters: the others are left out where there is no room.
  std::vector<LabelledPicture> pictures;
  std::vector<std::string> lines;   // what is seen, in words
  std::vector<std::string> status;  // where the episode stands
  std::vector<std::string> keys;    // what key does what; as many on a line as fit

  // At most `rows` lines of at most `columns` - 1 columns. A cell has two columns, or one where that does not fit; a
  // picture that does not fit even so is replaced by a line that says so and how much it takes. Where rows are few,
  // the title goes first, then what is seen in words, then keys.
  std::vector<std::string> compose(std::size_t columns, std::size_t rows, ColourDepth depth) const;
};

}  // namespace engram
