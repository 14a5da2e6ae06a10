// Settings as a JSON object: {"learner.learning_rate": "1e-3"}, in their order.
#pragma once

#include <nlohmann/json.hpp>

#include "storage/settings.h"

namespace engram {

inline nlohmann::ordered_json settings_json(const Settings& settings) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  for (const auto& [key, value] : settings) json[key] = value;
  return json;
}

}  // namespace engram
