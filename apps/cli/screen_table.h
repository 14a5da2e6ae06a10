// ScreenTable: a table for terminals of 80 columns.
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace engram {

inline constexpr std::size_t kScreenColumns = 80;

// In one line of at most `width` bytes; a longer text loses its middle.
std::string shortened(const std::string& text, std::size_t width);

class ScreenTable {
 public:
  struct Column {
    std::string title;  // may have several lines
    bool right = false;
    std::size_t gap = 2;  // blanks in front of it, but for the first
  };

  explicit ScreenTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  // Of fewer cells than columns, or where the last column is flush left, the last cell runs to the end of the line and
  // on in the next ones.
  void add(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  bool empty() const { return rows_.empty(); }

  // Columns are as wide as what they hold. Where that is more than kScreenColumns, a last one that is flush left gives
  // way first, then the widest of the others that are, whose cells lose their middles.
  std::string text(std::size_t indent = 2) const;

 private:
  bool runs_on(const std::vector<std::string>& row, std::size_t column) const;
  std::vector<std::size_t> widths(std::size_t indent) const;

  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace engram
