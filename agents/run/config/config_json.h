// Configs as JSON: in what `engram inspect`, `evaluate` and `diagnose` print, and as the Python package shows them.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "agents/run/config/config.h"

namespace engram {

// A value of an option that takes what is `allowed`, from its text.
nlohmann::ordered_json value_json(const std::string& allowed, const std::string& text);
// {"task.corridor_length": {"trained": 4, "evaluated": 60}}
nlohmann::ordered_json differs_json(const std::vector<OptionDifference>& elsewhere);
// Every value of a config, by key.
nlohmann::ordered_json config_json(const Config& config);

}  // namespace engram
