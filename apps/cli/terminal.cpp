#include "apps/cli/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <string_view>

namespace engram {
namespace {

constexpr std::size_t kFallbackColumns = 80;
constexpr std::size_t kLeastCells = 10, kMostCells = 20;

std::string_view environment(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

std::string bar(double done, std::size_t cells) {
  const auto full = static_cast<std::size_t>(std::clamp(done, 0.0, 1.0) * static_cast<double>(cells));
  return std::string("[").append(full, '#').append(cells - full, '.').append("]");
}

std::string joined(const std::vector<LinePart>& parts, int most_rank) {
  std::string line;
  for (const LinePart& part : parts)
    if (part.rank <= most_rank) line += (line.empty() ? "" : part.joint) + part.text;
  return line;
}

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0) == 0x80; }  // of UTF-8

}  // namespace

std::optional<std::size_t> terminal_columns(int descriptor) {
  if (isatty(descriptor) == 0) return {};
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  const std::string_view named = environment("COLUMNS");
  std::uint16_t columns = 0;
  const auto parsed = std::from_chars(named.data(), named.data() + named.size(), columns);
  const bool whole = parsed.ec == std::errc{} && parsed.ptr == named.data() + named.size();
  return whole && columns > 0 ? columns : kFallbackColumns;
}

TerminalWidth terminal_width(int descriptor) {
  const std::string_view kind = environment("TERM");
  if (isatty(descriptor) == 0 || kind.empty() || kind == "dumb") return {};
  return [descriptor] { return terminal_columns(descriptor).value_or(kFallbackColumns); };
}

std::string wrap(const std::string& text, std::size_t columns, std::size_t first, std::size_t indent) {
  std::string result;
  std::string_view rest = text;
  rest = rest.substr(0, rest.find_last_not_of(' ') + 1);
  std::size_t column = first;
  for (;;) {
    const std::size_t room = columns > column ? columns - column : 1;
    if (rest.size() <= room) return result.append(rest);
    // The last blank that leaves a line which fits, but none of those that the text begins with.
    const std::size_t word = std::min(rest.find_first_not_of(' '), rest.size());
    std::size_t end = rest.rfind(' ', room);
    if (end == std::string_view::npos || end < word) {
      end = room;
      while (end > 1 && continues_character(rest[end])) --end;
    }
    std::string_view line = rest.substr(0, end);
    line = line.substr(0, line.find_last_not_of(' ') + 1);
    result.append(line).append("\n").append(indent, ' ');
    rest.remove_prefix(end);
    rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size()));
    column = indent;
  }
}

std::string ProgressLine::plain() const { return joined(parts, std::numeric_limits<int>::max()); }

std::string ProgressLine::fit(std::size_t columns) const {
  std::set<int, std::greater<>> ranks = {bar_rank};
  for (const LinePart& part : parts) ranks.insert(part.rank);
  for (const int rank : ranks) {
    const std::string text = joined(parts, rank);
    const bool with_bar = bar_rank <= rank;
    const std::size_t needed = text.size() + (with_bar ? kLeastCells + std::strlen("[] ") : 0);
    if (needed > columns) continue;
    if (!with_bar) return text;
    return bar(done, std::min(kMostCells, kLeastCells + columns - needed)) + " " + text;
  }
  return "";
}

// The last column stays free: some terminals begin a new line as soon as it is written to.
void LiveLine::show(const ProgressLine& line) {
  if (!live()) {
    out_ << line.plain() << std::endl;
    return;
  }
  const std::size_t columns = width_();
  out_ << "\r" << line.fit(columns > 0 ? columns - 1 : 0) << kEraseBelow << "\r" << std::flush;
  shown_ = true;
}

void LiveLine::say(const std::string& text) {
  clear();
  constexpr std::size_t kIndent = 2;
  out_ << (live() ? wrap(text, std::max<std::size_t>(width_(), kIndent + 2) - 1, 0, kIndent) : text) << std::endl;
}

void LiveLine::clear() {
  if (shown_) out_ << "\r" << kEraseBelow << std::flush;
  shown_ = false;
}

}  // namespace engram
