#include "base/throw_error.h"

#include <doctest/doctest.h>

#include <cerrno>

#include "base/error.h"

using namespace engram;

TEST_CASE("an error number is the machine's or the path's, and says which") {
  for (const int error : {ENOSPC, EDQUOT, EFBIG, EIO, EMFILE, ENFILE, ENOMEM}) {
    CAPTURE(error);
    CHECK_THROWS_AS(throw_error("a file", error), FileError);
  }
  for (const int error : {ENOENT, EACCES, EROFS, ENAMETOOLONG}) {
    CAPTURE(error);
    CHECK_THROWS_AS(throw_error("a file", error), UserError);
  }
  CHECK_THROWS_WITH(throw_error("a file", EFBIG), "a file: File too large");
}
