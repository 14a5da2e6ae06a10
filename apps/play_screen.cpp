#include "apps/play_screen.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <sstream>

#include "apps/terminal.h"

namespace engram {
namespace {

constexpr std::size_t kGap = 3;  // columns between pictures
constexpr const char* kPlain = "\033[0m";

using Lines = std::vector<std::string>;

std::string background(Rgb colour, ColourDepth depth) {
  if (depth == ColourDepth::k256) return "\033[48;5;" + std::to_string(nearest_of_256(colour)) + "m";
  return "\033[48;2;" + std::to_string(colour.red) + ";" + std::to_string(colour.green) + ";" +
         std::to_string(colour.blue) + "m";
}

int distance(Rgb a, Rgb b) {
  const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

void append_wrapped(Lines& lines, const std::string& text, std::size_t columns) {
  std::istringstream wrapped(wrap(text, columns, 0, 2));
  for (std::string line; std::getline(wrapped, line);) lines.push_back(line);
}

// As many items on a line as fit, three blanks between them.
Lines flowed(const Lines& items, std::size_t columns) {
  Lines lines;
  for (const std::string& item : items) {
    if (!lines.empty() && lines.back().size() + kGap + item.size() <= columns)
      lines.back() += std::string(kGap, ' ') + item;
    else
      append_wrapped(lines, item, columns);
  }
  return lines;
}

std::size_t columns_of(const Canvas& picture, std::size_t cell) {
  return static_cast<std::size_t>(picture.columns()) * cell;
}
std::size_t rows_of(const Canvas& picture) { return static_cast<std::size_t>(picture.rows()); }

// The pictures, in at most `rows` lines of `columns` columns.
Lines drawn(const std::vector<LabelledPicture>& pictures, std::size_t columns, std::size_t rows, ColourDepth depth) {
  if (pictures.empty()) return {};
  const Canvas& first = pictures.front().picture;
  const std::size_t cell = columns_of(first, 2) <= columns ? 2 : 1;
  if (columns_of(first, cell) > columns || rows_of(first) > rows)
    return flowed({"No room for the picture of " + std::to_string(first.rows()) + " x " +
                   std::to_string(first.columns()) + " cells: it takes " + std::to_string(first.columns() + 1) +
                   " columns and " + std::to_string(rows_of(first)) + " rows, and there are " +
                   std::to_string(columns + 1) + " and " + std::to_string(rows) + ". Enlarge the terminal."},
                  columns);
  std::size_t width = 0, height = 0, shown = 0;
  for (const LabelledPicture& one : pictures) {
    const std::size_t own = std::max(columns_of(one.picture, cell), one.label.size());
    const std::size_t with_labels = rows_of(one.picture) + 1;
    if (shown > 0 && (width + kGap + own > columns || std::max(height, with_labels) > rows)) break;
    width += (shown > 0 ? kGap : 0) + own;
    height = std::max(height, with_labels);
    ++shown;
  }
  if (shown == 1) return picture_lines(first, cell, depth);
  Lines lines(height);
  for (std::size_t i = 0; i < shown; ++i) {
    const LabelledPicture& one = pictures[i];
    const std::size_t own = columns_of(one.picture, cell), all = std::max(own, one.label.size());
    const std::string gap(i + 1 < shown ? kGap : 0, ' ');
    const Lines picture = picture_lines(one.picture, cell, depth);
    lines[0] += one.label + std::string(all - one.label.size(), ' ') + gap;
    for (std::size_t row = 1; row < height; ++row)
      lines[row] +=
          (row <= picture.size() ? picture[row - 1] + std::string(all - own, ' ') : std::string(all, ' ')) + gap;
  }
  return lines;
}

}  // namespace

ColourDepth colour_depth(std::string_view colorterm) {
  return colorterm == "truecolor" || colorterm == "24bit" ? ColourDepth::k24Bit : ColourDepth::k256;
}

// Colours 16 to 231 are a cube of six levels a side, 232 to 255 greys.
int nearest_of_256(Rgb colour) {
  constexpr std::array<std::uint8_t, 6> kLevels = {0, 95, 135, 175, 215, 255};
  const auto level = [&](std::uint8_t value) {
    const auto nearest = std::ranges::min_element(kLevels, {}, [&](int known) { return std::abs(known - value); });
    return static_cast<int>(nearest - kLevels.begin());
  };
  const int red = level(colour.red), green = level(colour.green), blue = level(colour.blue);
  const Rgb cube{kLevels[static_cast<std::size_t>(red)], kLevels[static_cast<std::size_t>(green)],
                 kLevels[static_cast<std::size_t>(blue)]};
  int best = 16 + 36 * red + 6 * green + blue, least = distance(cube, colour);
  for (int i = 0; i < 24; ++i) {
    const auto value = static_cast<std::uint8_t>(8 + 10 * i);
    if (const int found = distance({value, value, value}, colour); found < least) {
      least = found;
      best = 232 + i;
    }
  }
  return best;
}

std::vector<std::string> picture_lines(const Canvas& picture, std::size_t cell_columns, ColourDepth depth) {
  Lines lines;
  for (int row = 0; row < picture.rows(); ++row) {
    std::string line, colour;
    for (int column = 0; column < picture.columns(); ++column) {
      const std::string next = background(picture.at(row, column), depth);
      line += (next == colour ? "" : next) + std::string(cell_columns, ' ');
      colour = next;
    }
    lines.push_back(line + kPlain);
  }
  return lines;
}

std::vector<std::string> PlayScreen::compose(std::size_t columns, std::size_t rows, ColourDepth depth) const {
  const std::size_t width = std::max<std::size_t>(columns, 8) - 1;  // some terminals wrap at once in their last column
  Lines top, seen, below;
  append_wrapped(top, title, width);
  for (const std::string& line : lines) append_wrapped(seen, line, width);
  for (const std::string& line : status) append_wrapped(below, line, width);
  const std::size_t status_rows = below.size();
  for (const std::string& line : flowed(keys, width)) below.push_back(line);

  const auto room = [&](std::size_t taken) { return rows > taken ? rows - taken : 0; };
  const Lines picture = drawn(pictures, width, room(below.size()), depth);
  if (room(picture.size()) < below.size()) below.resize(std::max(status_rows, room(picture.size())));
  if (const std::size_t most = room(picture.size() + below.size()); seen.size() > most) {
    seen.resize(most);
    if (most > 0) seen.back() = std::string("(There is more: enlarge the terminal.)").substr(0, width);
  }
  if (top.size() > room(picture.size() + seen.size() + below.size())) top.clear();
  std::size_t blanks = room(top.size() + picture.size() + seen.size() + below.size());

  Lines all = top;
  const auto add = [&](const Lines& more) {
    if (more.empty()) return;
    if (blanks > 0 && !all.empty()) {
      all.emplace_back();
      --blanks;
    }
    all.insert(all.end(), more.begin(), more.end());
  };
  add(picture);
  add(seen);
  add(below);
  if (all.size() > rows) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(rows));
  return all;
}

}  // namespace engram
