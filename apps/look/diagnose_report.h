// What engram diagnose has found, in tables. Values of actions are called Q, values of states V.
#pragma once

#include <optional>
#include <string>

#include "agents/study/run_diagnosis.h"

namespace engram {

// Tables of success and decisions, of values at the deciding step, of the phases and of the cue, each after an empty
// line. `chance`: TaskInfo::chance_success.
std::string findings_text(const RunDiagnosis& findings, std::optional<double> chance);

}  // namespace engram
