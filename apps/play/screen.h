// What a person who plays sees in a terminal: pictures of coloured cells and lines of text, with ANSI escape sequences.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "envs/task.h"

namespace engram {

enum class ColourDepth { kNone, k256, k24Bit };

// By the environment variables: none where NO_COLOR is set and not empty (no-color.org), 24 bits where COLORTERM says
// so, 256 colours otherwise.
ColourDepth colour_depth(std::string_view colorterm, std::string_view no_color);

// The nearest of the 256 colours' cube and greys.
int nearest_of_256(Rgb colour);

// Whether it is one of the colours, or of their shades.
bool has_meaning(const std::vector<ColourMeaning>& meanings, Rgb colour);

// What stands for a colour where there are none: its letter, of shades a digit, the tenths; of colours without a
// meaning the darker the denser.
char letter_of(const std::vector<ColourMeaning>& meanings, Rgb colour);

// A line for each row, each cell `cell_columns` blanks on its colour, an arrow as one of > v < ^; all colours are off
// at the end of a line. Without colours each cell is its letter, but for the arrow.
std::vector<std::string> picture_lines(const Canvas& picture, const std::vector<ColourMeaning>& meanings,
                                       std::size_t cell_columns, ColourDepth depth);

struct LabelledPicture {
  std::string label;
  Canvas picture;
};

struct PlayScreen {
  std::string title;
  // Side by side. The first is what matters: the others are left out where there is no room.
  std::vector<LabelledPicture> pictures;
  std::vector<ColourMeaning> colours;  // those of the pictures are explained below them
  std::vector<std::string> lines;      // what is seen, in words
  std::vector<std::string> status;     // where the episode stands
  std::vector<std::string> keys;       // what key does what; as many on a line as fit

  // At most `rows` lines of at most `columns` - 1 columns. A cell has two columns, or one where that does not fit; a
  // picture that does not fit even so is replaced by a line that says so and how much it takes. Where rows are few, the
  // title goes first, then the meanings of colours, then what is seen in words, then keys.
  std::vector<std::string> compose(std::size_t columns, std::size_t rows, ColourDepth depth) const;
};

}  // namespace engram
