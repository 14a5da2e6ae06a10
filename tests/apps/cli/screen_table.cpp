#include "apps/cli/screen_table.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

using namespace engram;

namespace {

std::size_t longest_line(const std::string& text) {
  std::istringstream lines(text);
  std::size_t longest = 0;
  for (std::string line; std::getline(lines, line);) longest = std::max(longest, line.size());
  return longest;
}

}  // namespace

TEST_CASE("columns are as wide as what they hold, titles of several lines stand on the row below them") {
  ScreenTable table({{"task"}, {"steps of\na run", true}, {"chance", true}});
  table.add({"tmaze", "2.00M", "50.0"});
  table.add({"key_to_door", "812", "-"});
  CHECK(table.text() ==
        "               steps of\n"
        "  task            a run  chance\n"
        "  tmaze           2.00M    50.0\n"
        "  key_to_door       812       -\n");
}

TEST_CASE("a row of fewer cells runs to the end of the line and goes on below") {
  ScreenTable table({{"file"}, {"steps", true}, {"bytes", true}});
  table.add({"a", "400", "12"});
  table.add({"b", "is damaged: " + std::string(30, 'x') + " " + std::string(30, 'y') + " " + std::string(20, 'z')});
  table.add({std::string(50, 'w') + " " + std::string(40, 'v')});
  CHECK(longest_line(table.text(0)) <= kScreenColumns);
  CHECK(table.text(0).find("\n" + std::string(40, 'v') + "\n") != std::string::npos);
  CHECK(table.text(0).starts_with("file  steps  bytes\na       400     12\nb     is damaged: xxx"));
}

TEST_CASE("a last column of text runs on below itself") {
  ScreenTable table({{"name"}, {"what it is"}});
  table.add({"gru", std::string(50, 'x') + " " + std::string(50, 'y')});
  CHECK(table.text(0) == "name  what it is\ngru   " + std::string(50, 'x') + "\n      " + std::string(50, 'y') + "\n");
}

TEST_CASE("no table is wider than a screen: long cells lose their middles, numbers do not") {
  ScreenTable table({{"name"}, {"number", true}, {"value"}});
  table.add({std::string(70, 'n') + "end", "123456789", std::string(300, 'v') + "\x1b[2J"});
  table.add({"short", "1", "2"});
  const std::string text = table.text();
  CHECK(longest_line(text) == kScreenColumns);
  CHECK(text.find("123456789") != std::string::npos);
  CHECK(text.find("nend  ") != std::string::npos);
  CHECK(text.find("...") != std::string::npos);
  CHECK(text.find('\x1b') == std::string::npos);
}

TEST_CASE("a text is shortened in its middle, and not through a character") {
  CHECK(shortened("abcdefghij", 10) == "abcdefghij");
  CHECK(shortened("abcdefghijk", 10) == "abc...hijk");
  CHECK(shortened("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 8) == "\xc3\xa4...\xc3\xa4");
}
