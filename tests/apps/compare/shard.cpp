#include "apps/compare/shard.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

TEST_CASE("a shard is I/N with I from 1 to N, counted from 0 inside") {
  CHECK(parse_shard("1/1").index == 0);
  CHECK(parse_shard("1/8").index == 0);
  CHECK(parse_shard("8/8").index == 7);
  CHECK(parse_shard("8/8").count == 8);
  for (const std::string bad : {"", "0/2", "3/2", "1", "1/", "/2", "a/b", "1/0", "1/3/5", "-1/2", " 1/2", "1/2 ",
                                "1e0/2", "1/99999999999999999999"}) {
    CAPTURE(bad);
    CHECK(message_of<UserError>([&] { parse_shard(bad); }) ==
          "--shard '" + bad + "' is not allowed; it takes I/N with I from 1 to N");
  }
}
