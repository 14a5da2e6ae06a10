// An experiment from the text of its file.
#pragma once

#include <sstream>
#include <string>

#include "experiments/plan/experiment.h"
#include "storage/settings.h"

namespace engram {

inline Experiment experiment_of(const std::string& text) {
  std::istringstream stream(text);
  return Experiment::from_settings(read_settings(stream, "it"));
}

}  // namespace engram
