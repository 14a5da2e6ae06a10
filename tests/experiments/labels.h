// The labels of an experiment's tasks or backbones.
#pragma once

#include <string>
#include <vector>

#include "experiments/plan/experiment.h"

namespace engram {

using Labels = std::vector<std::string>;

inline Labels labels(const std::vector<ExperimentEntry>& entries) {
  Labels result;
  for (const ExperimentEntry& entry : entries) result.push_back(entry.label);
  return result;
}

}  // namespace engram
