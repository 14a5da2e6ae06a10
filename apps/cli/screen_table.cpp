#include "apps/cli/screen_table.h"

#include <algorithm>
#include <numeric>

#include "apps/cli/terminal.h"
#include "base/error.h"
#include "base/text/text.h"

namespace engram {
namespace {

constexpr std::size_t kLeastWidth = 8, kLeastLastWidth = 24;

std::string padded(const std::string& text, std::size_t width, bool right) {
  const std::string cell = shortened(text, width), blanks(width - std::min(width, cell.size()), ' ');
  return right ? blanks + cell : cell + blanks;
}

void end_line(std::string& text) {
  text.erase(text.find_last_not_of(' ') + 1);
  text += '\n';
}

}  // namespace

// Not through the middle of a UTF-8 character.
std::string shortened(const std::string& text, std::size_t width) {
  const std::string line = one_line(text);
  if (line.size() <= width) return line;
  const std::string cut = "...";
  const auto continues = [&line](std::size_t i) { return (static_cast<unsigned char>(line[i]) & 0xc0) == 0x80; };
  std::size_t head = (width - cut.size()) / 2, tail = line.size() - (width - cut.size() - head);
  while (head > 0 && continues(head)) --head;
  while (tail < line.size() && continues(tail)) ++tail;
  return line.substr(0, head) + cut + line.substr(tail);
}

bool ScreenTable::runs_on(const std::vector<std::string>& row, std::size_t column) const {
  return column + 1 == row.size() && (row.size() < columns_.size() || !columns_.back().right);
}

std::vector<std::size_t> ScreenTable::widths(std::size_t indent) const {
  std::vector<std::size_t> widths;
  for (const Column& column : columns_) {
    std::size_t width = 0;
    for (const std::string& line : split_text(column.title, '\n')) width = std::max(width, line.size());
    widths.push_back(width);
  }
  for (const auto& row : rows_)
    for (std::size_t i = 0; i < row.size(); ++i)
      if (row.size() == columns_.size() || !runs_on(row, i)) widths[i] = std::max(widths[i], one_line(row[i]).size());
  std::size_t room = kScreenColumns - indent;
  for (std::size_t i = 1; i < columns_.size(); ++i) room -= columns_[i].gap;
  const auto needed = [&] { return std::accumulate(widths.begin(), widths.end(), std::size_t{0}); };
  if (!columns_.back().right)
    while (needed() > room && widths.back() > kLeastLastWidth) --widths.back();
  while (needed() > room) {
    std::size_t* widest = nullptr;
    for (std::size_t i = 0; i + 1 < widths.size(); ++i)
      if (!columns_[i].right && widths[i] > (widest == nullptr ? kLeastWidth : *widest)) widest = &widths[i];
    if (widest == nullptr) break;
    --*widest;
  }
  return widths;
}

std::string ScreenTable::text(std::size_t indent) const {
  const std::vector<std::size_t> widths = this->widths(indent);
  std::size_t title_lines = 0;
  std::vector<std::vector<std::string>> titles;
  for (const Column& column : columns_) {
    titles.push_back(split_text(column.title, '\n'));
    title_lines = std::max(title_lines, titles.back().size());
  }
  for (auto& lines : titles) lines.insert(lines.begin(), title_lines - lines.size(), "");

  std::string text;
  const auto cell = [&](std::size_t column, const std::string& contents) {
    text.append(column == 0 ? indent : columns_[column].gap, ' ')
        .append(padded(contents, widths[column], columns_[column].right));
  };
  for (std::size_t line = 0; line < title_lines; ++line) {
    for (std::size_t i = 0; i < columns_.size(); ++i) cell(i, titles[i][line]);
    end_line(text);
  }
  for (const auto& row : rows_) {
    std::size_t place = 0;
    for (std::size_t i = 0; i < row.size(); place += widths[i++]) {
      const std::size_t gap = i == 0 ? indent : columns_[i].gap;
      place += gap;
      if (runs_on(row, i))
        text.append(gap, ' ').append(wrap(one_line(row[i]), kScreenColumns, place, place));
      else
        cell(i, row[i]);
    }
    end_line(text);
  }
  return text;
}

}  // namespace engram
