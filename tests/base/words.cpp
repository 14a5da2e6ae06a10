#include "base/text/words.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdio>
#include <string>

using namespace engram;

namespace {

// What bash takes the text for: the one word of it.
std::string word_of_bash(const std::string& text) {
  std::FILE* const pipe = ::popen(("exec bash -c " + shell_word("printf '%s|' " + text)).c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string said;
  for (int c; (c = std::fgetc(pipe)) != EOF;) said += static_cast<char>(c);
  REQUIRE(::pclose(pipe) == 0);
  return said;
}

}  // namespace

TEST_CASE("one of a thing is one, and there are several of all other counts") {
  CHECK(counted(1, "task") == "1 task");
  CHECK(counted(0, "task") == "0 tasks");
  CHECK(counted(12, "run") == "12 runs");
  CHECK(counted(1, "match", "matches") == "1 match");
  CHECK(counted(2, "match", "matches") == "2 matches");
}

TEST_CASE("durations have two units, the larger one days at most") {
  CHECK(duration_text(7.4) == "7s");
  CHECK(duration_text(59.6) == "1m00s");
  CHECK(duration_text(725) == "12m05s");
  CHECK(duration_text(12'000) == "3h20m");
  CHECK(duration_text(48 * 3600 - 1) == "47h59m");
  CHECK(duration_text(48 * 3600) == "2d00h");
  CHECK(duration_text(3487 * 3600.0 + 600) == "145d07h");
  CHECK(duration_text(1e300) == "for ever");
  CHECK(duration_text(NAN) == "for ever");
}

TEST_CASE("words of a command come out of a shell as they went in") {
  for (const std::string word :
       {"runs/a", "", "my runs/it's a", "\"$(touch here)\" `x`", "~/a", "a\\b", "*?[a]{b,c}", "#a;b&c|d<e>f!g", "-x",
        "\xc3\xa4 \xe6\x97\xa5", "a\nb\t'c'\\\x1b[2J\x7f", "a=b:c,d%e+f@g"}) {
    CAPTURE(word);
    const std::string quoted = shell_word(word);
    CHECK(word_of_bash(quoted) == word + "|");
    for (const char c : quoted) CHECK(static_cast<unsigned char>(c) >= 0x20);
  }
  CHECK(shell_word("runs/a-1_b.c") == "runs/a-1_b.c");
  CHECK(shell_word("my runs") == "'my runs'");
  CHECK(shell_command({"engram", "evaluate", "my runs/a", "--json"}) == "engram evaluate 'my runs/a' --json");
}
