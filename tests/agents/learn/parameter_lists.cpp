#include "agents/learn/optimizer/parameter_lists.h"

#include <doctest/doctest.h>

#include "tests/agents/learn/list_checks.h"

using namespace engram;

TEST_CASE("norms of a list are those of its tensors, and a list moves towards another") {
  testing::check_parameter_lists(torch::kFloat64);
  testing::check_parameter_lists(torch::kFloat32);
}
