#include "agents/run/config/config_json.h"

namespace engram {

using Json = nlohmann::ordered_json;

Json value_json(const std::string& allowed, const std::string& text) {
  const bool plain = allowed.starts_with("integer") || allowed.starts_with("number") || allowed == "false | true";
  const Json parsed = plain ? Json::parse(text, nullptr, /*allow_exceptions=*/false) : Json(text);
  return parsed.is_discarded() ? Json(text) : parsed;
}

Json differs_json(const std::vector<OptionDifference>& elsewhere) {
  Json differs = Json::object();
  for (const auto& [name, allowed, trained, evaluated] : elsewhere)
    differs[name] = {{"trained", value_json(allowed, trained)}, {"evaluated", value_json(allowed, evaluated)}};
  return differs;
}

Json config_json(const Config& config) {
  Json json = {{"task.name", config.task.name()},
               {"memory.name", config.memory.name()},
               {"learner.name", config.learner.name()}};
  for (const OptionValue& option : config.values()) json[option.name] = value_json(option.allowed, option.text);
  return json;
}

}  // namespace engram
