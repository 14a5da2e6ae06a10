#include <doctest/doctest.h>

#include "tests/skip.h"

TEST_CASE("a case for what is not here") { engram::testing::skip_case("there is no GPU"); }

TEST_CASE("a case that runs everywhere") { CHECK(true); }
