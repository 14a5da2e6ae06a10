// What a diagnosis found, made up.
#pragma once

#include "agents/study/diagnosis.h"

namespace engram::testing {

// Of ten episodes of a task with a single phase.
inline Diagnosis single_phase(bool values_are_of_actions) {
  Diagnosis diagnosis;
  diagnosis.episodes = 10;
  diagnosis.solved = 4;
  diagnosis.values_are_of_actions = values_are_of_actions;
  diagnosis.decisions = {.right = 4, .wrong = 6, .value_auc = 0.75, .phase = "junction"};
  diagnosis.phases = {{"junction", 20, 0.5, 1, 0.25, 0.125}};
  return diagnosis;
}

}  // namespace engram::testing
