#include "apps/play/screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <sstream>

#include "apps/cli/terminal.h"
#include "envs/shown_observation.h"

namespace engram {
namespace {

constexpr std::size_t kGap = 3;  // columns between pictures
constexpr const char* kPlain = "\033[0m";
// Of letters.
constexpr const char* kBlack = "\033[38;5;16m";
constexpr const char* kWhite = "\033[38;5;231m";

using Lines = std::vector<std::string>;

std::string background(Rgb colour, ColourDepth depth) {
  if (depth == ColourDepth::k256) return "\033[48;5;" + std::to_string(nearest_of_256(colour)) + "m";
  return "\033[48;2;" + std::to_string(colour.red) + ";" + std::to_string(colour.green) + ";" +
         std::to_string(colour.blue) + "m";
}

std::string ink_on(Rgb colour) { return is_dark(colour) ? kWhite : kBlack; }

int distance(Rgb a, Rgb b) {
  const int red = a.red - b.red, green = a.green - b.green, blue = a.blue - b.blue;
  return red * red + green * green + blue * blue;
}

void append_wrapped(Lines& lines, const std::string& text, std::size_t columns) {
  std::istringstream wrapped(wrap(text, columns, 0, 2));
  for (std::string line; std::getline(wrapped, line);) lines.push_back(line);
}

// A piece of a line, and how many columns it takes.
struct Item {
  std::string text;
  std::size_t columns;
};

// As many items on a line as fit, three blanks between them.
Lines flowed(const std::vector<Item>& items, std::size_t columns) {
  Lines lines;
  std::size_t taken = 0;
  for (const Item& item : items) {
    if (!lines.empty() && taken + kGap + item.columns <= columns) {
      lines.back() += std::string(kGap, ' ') + item.text;
      taken += kGap + item.columns;
    } else if (item.columns <= columns) {
      lines.push_back(item.text);
      taken = item.columns;
    } else {
      append_wrapped(lines, item.text, columns);
      taken = lines.back().size();
    }
  }
  return lines;
}

Lines flowed(const Lines& texts, std::size_t columns) {
  std::vector<Item> items;
  for (const std::string& text : texts) items.push_back({text, text.size()});
  return flowed(items, columns);
}

constexpr const char* kArrows = ">v<^";  // by Facing

char arrow_of(const Canvas::Arrow& arrow) { return kArrows[static_cast<std::size_t>(arrow.facing)]; }

// The share of shades at which a colour stands; none if it is none of them.
std::optional<double> share_of(const ColourMeaning& shades, Rgb colour) {
  const int from[] = {shades.colour.red, shades.colour.green, shades.colour.blue};
  const int to[] = {shades.last->red, shades.last->green, shades.last->blue};
  const int own[] = {colour.red, colour.green, colour.blue};
  int widest = 0;
  for (int c = 1; c < 3; ++c)
    if (std::abs(to[c] - from[c]) > std::abs(to[widest] - from[widest])) widest = c;
  const double share = static_cast<double>(own[widest] - from[widest]) / (to[widest] - from[widest]);
  for (int c = 0; c < 3; ++c)
    if (std::abs(from[c] + share * (to[c] - from[c]) - own[c]) > 1) return {};
  return share >= 0 && share <= 1 ? std::optional(share) : std::nullopt;
}

// The one that the colour has; null where none does.
const ColourMeaning* meaning_of(const std::vector<ColourMeaning>& meanings, Rgb colour) {
  const auto found = std::ranges::find_if(meanings, [&](const ColourMeaning& meaning) {
    return meaning.last ? share_of(meaning, colour).has_value() : meaning.colour == colour;
  });
  return found == meanings.end() ? nullptr : &*found;
}

// A cell of the picture: its colour and what stands on it.
struct CellLook {
  Rgb colour;
  char letter;
  bool is_arrow;
};
CellLook look_of(const Canvas& picture, const std::vector<ColourMeaning>& meanings, int row, int column) {
  const Rgb colour = picture.at(row, column);
  const auto& arrow = picture.arrow();
  if (arrow && arrow->row == row && arrow->column == column) return {colour, arrow_of(*arrow), true};
  return {colour, letter_of(meanings, colour), false};
}

// One cell alone.
std::string swatch(const CellLook& cell, ColourDepth depth) {
  if (depth == ColourDepth::kNone) return std::string(1, cell.letter);
  return background(cell.colour, depth) + (cell.is_arrow ? ink_on(cell.colour) + cell.letter : " ") + " " + kPlain;
}

// Each colour of the pictures that has a meaning, with it; several of one meaning as one item.
std::vector<Item> legend(std::span<const LabelledPicture> pictures, const std::vector<ColourMeaning>& meanings,
                         ColourDepth depth) {
  // Of each meaning a cell; one below an arrow only if there is no other.
  std::vector<std::optional<CellLook>> look(meanings.size());
  for (const LabelledPicture& one : pictures)
    for (int row = 0; row < one.picture.rows(); ++row)
      for (int column = 0; column < one.picture.columns(); ++column) {
        const ColourMeaning* const meaning = meaning_of(meanings, one.picture.at(row, column));
        if (meaning == nullptr) continue;
        std::optional<CellLook>& own = look[static_cast<std::size_t>(meaning - meanings.data())];
        if (!own || own->is_arrow) own = look_of(one.picture, meanings, row, column);
      }
  std::vector<Item> items;
  for (std::size_t i = 0; i < meanings.size();) {
    std::vector<CellLook> cells;
    const std::string& text = meanings[i].meaning;
    for (; i < meanings.size() && meanings[i].meaning == text; ++i) {
      if (!look[i]) continue;
      const auto& last = meanings[i].last;
      cells.push_back(last ? CellLook{meanings[i].colour, '0', false} : *look[i]);
      if (last && depth == ColourDepth::kNone) cells.push_back({{}, '-', false});
      if (last) cells.push_back({*last, '9', false});
    }
    if (cells.empty()) continue;
    Item item{"", 0};
    for (const CellLook& cell : cells) {
      item.text += swatch(cell, depth);
      item.columns += depth == ColourDepth::kNone ? 1 : 2;
    }
    items.push_back({item.text + " " + text, item.columns + 1 + text.size()});
  }
  return items;
}

std::size_t columns_of(const Canvas& picture, std::size_t cell) {
  return static_cast<std::size_t>(picture.columns()) * cell;
}
std::size_t rows_of(const Canvas& picture) { return static_cast<std::size_t>(picture.rows()); }

struct Drawn {
  Lines lines;
  std::size_t pictures;  // how many of them are there, the first ones
};

// The pictures, in at most `rows` lines of `columns` columns.
Drawn drawn(const std::vector<LabelledPicture>& pictures, const std::vector<ColourMeaning>& meanings,
            std::size_t columns, std::size_t rows, ColourDepth depth) {
  if (pictures.empty()) return {{}, 0};
  const Canvas& first = pictures.front().picture;
  const std::size_t cell = columns_of(first, 2) <= columns ? 2 : 1;
  if (columns_of(first, cell) > columns || rows_of(first) > rows)
    return {flowed(Lines{"No room for the picture of " + std::to_string(first.rows()) + " x " +
                         std::to_string(first.columns()) + " cells: it takes " + std::to_string(first.columns() + 1) +
                         " columns and " + std::to_string(rows_of(first)) + " rows, and there are " +
                         std::to_string(columns + 1) + " and " + std::to_string(rows) + ". Enlarge the terminal."},
                   columns),
            0};
  std::size_t width = 0, height = 0, shown = 0;
  for (const LabelledPicture& one : pictures) {
    const std::size_t own = std::max(columns_of(one.picture, cell), one.label.size());
    const std::size_t with_labels = rows_of(one.picture) + 1;
    if (shown > 0 && (width + kGap + own > columns || std::max(height, with_labels) > rows)) break;
    width += (shown > 0 ? kGap : 0) + own;
    height = std::max(height, with_labels);
    ++shown;
  }
  if (shown == 1) return {picture_lines(first, meanings, cell, depth), 1};
  Lines lines(height);
  for (std::size_t i = 0; i < shown; ++i) {
    const LabelledPicture& one = pictures[i];
    const std::size_t own = columns_of(one.picture, cell), all = std::max(own, one.label.size());
    const std::string gap(i + 1 < shown ? kGap : 0, ' ');
    const Lines picture = picture_lines(one.picture, meanings, cell, depth);
    lines[0] += one.label + std::string(all - one.label.size(), ' ') + gap;
    for (std::size_t row = 1; row < height; ++row)
      lines[row] +=
          (row <= picture.size() ? picture[row - 1] + std::string(all - own, ' ') : std::string(all, ' ')) + gap;
  }
  return {lines, shown};
}

}  // namespace

ColourDepth colour_depth(std::string_view colorterm, std::string_view no_color) {
  if (!no_color.empty()) return ColourDepth::kNone;
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

bool has_meaning(const std::vector<ColourMeaning>& meanings, Rgb colour) {
  return meaning_of(meanings, colour) != nullptr;
}

char letter_of(const std::vector<ColourMeaning>& meanings, Rgb colour) {
  constexpr std::string_view kDensest = "@%*+-. ";  // from dark to bright
  if (const ColourMeaning* const meaning = meaning_of(meanings, colour)) {
    if (!meaning->last) return meaning->letter;
    return static_cast<char>('0' + std::min(9, static_cast<int>(10 * *share_of(*meaning, colour))));
  }
  return kDensest[static_cast<std::size_t>(brightness(colour)) * kDensest.size() / 256];
}

std::vector<std::string> picture_lines(const Canvas& picture, const std::vector<ColourMeaning>& meanings,
                                       std::size_t cell_columns, ColourDepth depth) {
  const bool coloured = depth != ColourDepth::kNone;
  Lines lines;
  for (int row = 0; row < picture.rows(); ++row) {
    std::string line, colour;
    for (int column = 0; column < picture.columns(); ++column) {
      const CellLook cell = look_of(picture, meanings, row, column);
      std::string text(cell_columns, ' ');
      if (!coloured || cell.is_arrow) text[0] = cell.letter;
      const std::string next = coloured ? background(cell.colour, depth) : "";
      line += (next == colour ? "" : next) + (coloured && cell.is_arrow ? ink_on(cell.colour) : "") + text;
      colour = next;
    }
    lines.push_back(coloured ? line + kPlain : line);
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
  const auto [picture, shown] = drawn(pictures, colours, width, room(below.size()), depth);
  if (room(picture.size()) < below.size()) below.resize(std::max(status_rows, room(picture.size())));
  if (const std::size_t most = room(picture.size() + below.size()); seen.size() > most) {
    seen.resize(most);
    if (most > 0) seen.back() = std::string("(There is more: enlarge the terminal.)").substr(0, width);
  }
  const std::vector<Item> items = legend(std::span(pictures).first(shown), colours, depth);
  Lines meant = flowed(items, width);
  const bool too_narrow = std::ranges::any_of(items, [&](const Item& item) { return item.columns > width; });
  if (too_narrow || meant.size() > room(picture.size() + seen.size() + below.size())) meant.clear();
  if (top.size() > room(picture.size() + meant.size() + seen.size() + below.size())) top.clear();
  std::size_t blanks = room(top.size() + picture.size() + meant.size() + seen.size() + below.size());

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
  add(meant);
  add(seen);
  add(below);
  if (all.size() > rows) all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(rows));
  return all;
}

}  // namespace engram
