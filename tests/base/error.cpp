#include "base/error.h"

#include <doctest/doctest.h>

#include <cstddef>
#include <string>

using namespace engram;

TEST_CASE("an error is one printable line") {
  CHECK(std::string(UserError("plain, \"quoted\", \xc3\xa4").what()) == "plain, \"quoted\", \xc3\xa4");
  CHECK(std::string(FileError("a\nb\r\x1b[31m\x7f").what()) == "a\\nb\\x0d\\x1b[31m\\x7f");
  CHECK(one_line(std::string("a\0b", 3)) == "a\\x00b");
}

TEST_CASE("a long error loses its middle, not its ends nor half a character") {
  CHECK(one_line(std::string(kMaxErrorBytes, 'x')).size() == kMaxErrorBytes);
  for (std::size_t shift = 0; shift < 4; ++shift) {
    std::string text(shift, 'x');
    for (int i = 0; i < 2000; ++i) text += "\xe2\x82\xac";
    const std::string line = one_line("begin " + text + " end");
    CHECK(line.size() <= kMaxErrorBytes);
    CHECK(line.starts_with("begin "));
    CHECK(line.ends_with(" end"));
    const std::string before = line.substr(0, line.find(" ... "));
    CHECK(before.ends_with("\xe2\x82\xac"));
    CHECK(line.substr(before.size() + 5).starts_with("\xe2\x82\xac"));
  }
}
