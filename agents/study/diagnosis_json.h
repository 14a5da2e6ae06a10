// What a diagnosis has found, as JSON: what `engram diagnose --json` prints and the Python package returns.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "agents/study/run_diagnosis.h"

namespace engram {

// Of episodes of one kind. Values of actions are called q, values of states value.
nlohmann::ordered_json diagnosis_json(const Diagnosis& found);
// Of a run, whose folder is called `run`; with what it means (diagnosis_meaning.h).
nlohmann::ordered_json run_diagnosis_json(const std::string& run, const RunDiagnosis& findings,
                                          const TrainedAgent& agent);

}  // namespace engram
