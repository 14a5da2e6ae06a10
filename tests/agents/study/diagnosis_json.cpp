#include "agents/study/diagnosis_json.h"

#include <doctest/doctest.h>

using namespace engram;

namespace {

// Of ten episodes of a task with a single phase.
Diagnosis single_phase(bool values_are_of_actions) {
  Diagnosis diagnosis;
  diagnosis.episodes = 10;
  diagnosis.solved = 4;
  diagnosis.values_are_of_actions = values_are_of_actions;
  diagnosis.decisions = {.right = 4, .wrong = 6, .value_auc = 0.75, .phase = "junction"};
  diagnosis.phases = {{"junction", 20, 0.5, 1, 0.25, 0.125}};
  return diagnosis;
}

}  // namespace

TEST_CASE("in JSON values of actions are q, those of states value") {
  const auto of_actions = diagnosis_json(single_phase(true)), of_states = diagnosis_json(single_phase(false));
  CHECK(of_actions["decisions"]["q_auc"] == 0.75);
  CHECK(of_actions["phases"][0]["absolute_q"] == 0.125);
  CHECK(of_states["decisions"]["value_auc"] == 0.75);
  CHECK(of_states["phases"][0]["absolute_value"] == 0.125);
  CHECK(!of_states["decisions"].contains("q_auc"));
  CHECK(!of_states["phases"][0].contains("absolute_q"));
}
