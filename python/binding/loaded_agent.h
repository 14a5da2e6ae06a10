// The agent of a run, from what Python functions take.
#pragma once

#include <filesystem>
#include <string>

#include "agents/run/trained/played_weights.h"
#include "agents/run/trained/trained_agent.h"

namespace engram::python {

// `weights`: "best" or "last"; `device`: as parse_device(). Throws as load_trained_agent() does.
inline TrainedAgent load_agent(const std::filesystem::path& run, const std::string& weights, const std::string& device,
                               const Settings& task_settings) {
  WhichWeights which = WhichWeights::kBest;
  OptionList list("");
  list_weights(list, which);
  list.set("weights", weights);
  return load_trained_agent(run, which, parse_device(device), task_settings);
}

}  // namespace engram::python
