// Writing to a terminal: how wide it is now, lines that fit into it, and a live line that is overwritten.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

namespace engram {

inline constexpr const char* kEraseBelow = "\033[J";  // from the cursor to the end of the screen

// Columns of the terminal that an open file descriptor writes to, as it is now; where it does not say, what the
// environment's COLUMNS does, else 80. Nothing where it is no terminal.
std::optional<std::size_t> terminal_columns(int descriptor);

// How wide a terminal is now, asked anew for every line, so that a resize is followed. Empty: lines cannot be
// overwritten.
using TerminalWidth = std::function<std::size_t()>;

// That of a file descriptor; empty where it is no terminal, or TERM says that it is a dumb one.
TerminalWidth terminal_width(int descriptor);

// `text` broken at blanks into lines of at most `columns`, all but the first behind `indent` blanks; a word longer than
// a line is broken, too. The first line begins in column `first`. A line's bytes are counted as its columns: UTF-8
// never takes more columns than bytes.
std::string wrap(const std::string& text, std::size_t columns, std::size_t first, std::size_t indent);

// A part of a line, with what stands between it and the part in front of it.
struct LinePart {
  int rank;  // 0: the most important
  std::string text;
  std::string joint = "  ";
};

// A line that tells how far something has come.
struct ProgressLine {
  double done = 0;   // share, 0 to 1
  int bar_rank = 0;  // of the bar in front of the parts
  std::vector<LinePart> parts;

  // All parts, without the bar.
  std::string plain() const;
  // Of the bar and the parts what fits into `columns`: each is there whole or not at all, and what is left out are the
  // highest ranks. The bar has 10 to 20 cells.
  std::string fit(std::size_t columns) const;
};

// A stream whose last line, on a terminal, is overwritten time and again. It never wraps, and the cursor waits at its
// beginning: whatever a terminal does with a line that it has become too narrow for, the next one erases all of it.
class LiveLine {
 public:
  LiveLine(std::ostream& out, TerminalWidth width) : out_(out), width_(std::move(width)) {}
  ~LiveLine() { clear(); }
  LiveLine(const LiveLine&) = delete;
  LiveLine& operator=(const LiveLine&) = delete;

  bool live() const { return width_ != nullptr; }
  // Overwrites the live line; without a terminal a plain line.
  void show(const ProgressLine& line);
  // Lines that stay, above the live line: `text` wrapped to the terminal.
  void say(const std::string& text);
  // Takes the live line away.
  void clear();

 private:
  std::ostream& out_;
  TerminalWidth width_;
  bool shown_ = false;
};

}  // namespace engram
