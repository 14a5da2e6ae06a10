#include "base/text/formatted.h"

#include <doctest/doctest.h>

#include <string>

using namespace engram;

TEST_CASE("text is what printf prints, however long") {
  CHECK(formatted("%d of %s, %.2f%%", 3, "four", 0.125) == "3 of four, 0.12%");
  CHECK(formatted("%s", "").empty());
  const std::string text(10'000, 'x');
  CHECK(formatted("<%s>", text.c_str()) == "<" + text + ">");
}
