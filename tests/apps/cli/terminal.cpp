#include "apps/cli/terminal.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

using namespace engram;

namespace {

// The two ends of a pseudo-terminal.
class PseudoTerminal {
 public:
  PseudoTerminal() : master_(posix_openpt(O_RDWR | O_NOCTTY)) {
    REQUIRE(master_ >= 0);
    REQUIRE(grantpt(master_) == 0);
    REQUIRE(unlockpt(master_) == 0);
    slave_ = open(ptsname(master_), O_RDWR | O_NOCTTY);
    REQUIRE(slave_ >= 0);
  }
  ~PseudoTerminal() {
    close(slave_);
    close(master_);
  }
  PseudoTerminal(const PseudoTerminal&) = delete;
  PseudoTerminal& operator=(const PseudoTerminal&) = delete;

  int slave() const { return slave_; }
  void resize(unsigned short columns) {
    const winsize size{24, columns, 0, 0};
    REQUIRE(ioctl(slave_, TIOCSWINSZ, &size) == 0);
  }

 private:
  int master_, slave_ = -1;
};

// A variable of the environment, as it was before when this ends. Null: not set.
class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) {
    if (const char* const before = std::getenv(name)) before_ = before;
    set(value);
  }
  ~Environment() { set(before_ ? before_->c_str() : nullptr); }
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

 private:
  void set(const char* value) { value != nullptr ? setenv(name_, value, 1) : unsetenv(name_); }

  const char* name_;
  std::optional<std::string> before_;
};

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

ProgressLine sample_line() { return {.done = 0.5, .bar_rank = 2, .parts = {{3, "speed"}, {0, "50%"}, {1, "2m left"}}}; }

}  // namespace

TEST_CASE("the width of a terminal is asked for anew, and COLUMNS and 80 stand in for it") {
  PseudoTerminal terminal;
  const Environment kind("TERM", "xterm");
  const TerminalWidth width = terminal_width(terminal.slave());
  REQUIRE(width != nullptr);
  for (const unsigned short columns : {80, 40, 132}) {
    terminal.resize(columns);
    CHECK(terminal_columns(terminal.slave()) == columns);
    CHECK(width() == columns);
  }
  terminal.resize(0);
  const Environment named("COLUMNS", "57");
  CHECK(width() == 57);
  for (const char* useless : {"", "0", "-3", "80x", "1000000"}) {
    const Environment wrong("COLUMNS", useless);
    CHECK(width() == 80);
  }
  const Environment nothing("COLUMNS", nullptr);
  CHECK(width() == 80);
}

TEST_CASE("lines are not overwritten in a file or on a dumb terminal") {
  PseudoTerminal terminal;
  for (const char* kind : {static_cast<const char*>(nullptr), "", "dumb"}) {
    const Environment set("TERM", kind);
    CHECK(terminal_width(terminal.slave()) == nullptr);
  }
  const Environment set("TERM", "xterm");
  const int file = open("/dev/null", O_WRONLY);
  CHECK(terminal_width(file) == nullptr);
  CHECK_FALSE(terminal_columns(file).has_value());
  close(file);
}

TEST_CASE("parts of a line are left out whole, the least important first") {
  const ProgressLine line = sample_line();
  CHECK(line.plain() == "speed  50%  2m left");
  CHECK(line.fit(100) == "[##########..........] speed  50%  2m left");
  CHECK(line.fit(42) == "[##########..........] speed  50%  2m left");
  CHECK(line.fit(41) == "[#########..........] speed  50%  2m left");  // the bar gives way first
  CHECK(line.fit(32) == "[#####.....] speed  50%  2m left");
  CHECK(line.fit(31) == "[########........] 50%  2m left");
  CHECK(line.fit(25) == "[#####.....] 50%  2m left");
  CHECK(line.fit(24) == "50%  2m left");
  CHECK(line.fit(12) == "50%  2m left");
  CHECK(line.fit(11) == "50%");
  CHECK(line.fit(3) == "50%");
  CHECK(line.fit(2) == "");
  CHECK(line.fit(0) == "");
  CHECK(ProgressLine{.done = 7, .bar_rank = 0, .parts = {{0, "x"}}}.fit(100) == "[####################] x");
}

TEST_CASE("text is wrapped at blanks, and a word that is longer than a line is broken") {
  CHECK(wrap("one two three", 13, 0, 2) == "one two three");
  CHECK(wrap("one two three", 12, 0, 2) == "one two\n  three");
  CHECK(wrap("one two three", 13, 1, 2) == "one two\n  three");
  CHECK(wrap("  one   two", 8, 0, 2) == "  one\n  two");  // blanks inside of a line stay
  CHECK(wrap("  one   two", 20, 0, 2) == "  one   two");
  CHECK(wrap("0123456789", 6, 0, 2) == "012345\n  6789");
  CHECK(wrap("a 0123456789", 6, 0, 2) == "a\n  0123\n  4567\n  89");
  CHECK(wrap("one   ", 4, 0, 2) == "one");
  CHECK(wrap("", 4, 0, 2) == "");
  CHECK(wrap("\u00e4\u00e4\u00e4\u00e4", 5, 0, 0) ==
        "\u00e4\u00e4\n\u00e4\u00e4");  // two bytes each: never half of one
  const std::string text = "some/very_long_name/of_a_run/3: success 93.2% after 12.3k steps, 2m05s, and so on";
  for (std::size_t columns = 20; columns <= 200; ++columns) {
    std::string words;
    for (const std::string& line : lines_of(wrap(text, columns, 0, 2))) {
      CHECK(line.size() <= columns);
      words += line;
    }
    std::erase(words, ' ');
    std::string expected = text;
    std::erase(expected, ' ');
    CHECK(words == expected);
  }
}

TEST_CASE("the live line follows the width, waits with the cursor at its beginning, and is taken away") {
  std::ostringstream out;
  std::size_t columns = 80;
  {
    LiveLine line(out, [&] { return columns; });
    CHECK(line.live());
    line.clear();
    CHECK(out.str().empty());  // nothing to clear
    line.show(sample_line());
    CHECK(out.str() == "\r[##########..........] speed  50%  2m left\033[J\r");
    out.str("");
    columns = 13;
    line.show(sample_line());
    CHECK(out.str() == "\r50%  2m left\033[J\r");
    out.str("");
    columns = 12;  // the last column stays free
    line.show(sample_line());
    CHECK(out.str() == "\r50%\033[J\r");
    out.str("");
    line.say("what stays is wrapped");
    CHECK(out.str() == "\r\033[Jwhat stays\n  is\n  wrapped\n");
    out.str("");
    line.say("next");
    CHECK(out.str() == "next\n");
    line.show(sample_line());
    out.str("");
  }
  CHECK(out.str() == "\r\033[J");
}

TEST_CASE("without a terminal lines are plain and whole") {
  std::ostringstream out;
  {
    LiveLine line(out, {});
    CHECK_FALSE(line.live());
    line.show(sample_line());
    line.say(std::string(300, 'x'));
  }
  CHECK(out.str() == "speed  50%  2m left\n" + std::string(300, 'x') + "\n");
}
