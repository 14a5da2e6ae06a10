#include "agents/study/diagnosis_json.h"

#include <doctest/doctest.h>

#include "tests/agents/study/single_phase.h"

using namespace engram;
using testing::single_phase;

TEST_CASE("in JSON values of actions are q, those of states value") {
  const auto of_actions = diagnosis_json(single_phase(true)), of_states = diagnosis_json(single_phase(false));
  CHECK(of_actions["decisions"]["q_auc"] == 0.75);
  CHECK(of_actions["phases"][0]["absolute_q"] == 0.125);
  CHECK(of_states["decisions"]["value_auc"] == 0.75);
  CHECK(of_states["phases"][0]["absolute_value"] == 0.125);
  CHECK(!of_states["decisions"].contains("q_auc"));
  CHECK(!of_states["phases"][0].contains("absolute_q"));
}
