#include "agents/run/config/hyperparameters.h"

#include <charconv>
#include <cmath>
#include <string>
#include <variant>

namespace engram {
namespace {

std::variant<bool, double, std::string> typed(const std::string& text) {
  if (text == "true" || text == "false") return text == "true";
  constexpr double kExactWholeNumbers = 9007199254740992;  // 2^53; a larger seed is a word
  double number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec == std::errc{} && parsed.ptr == end && std::abs(number) <= kExactWholeNumbers) return number;
  return text;
}

}  // namespace

std::vector<Hyperparameter> hyperparameters(const Config& config) {
  std::vector<Hyperparameter> all = {{"task.name", config.task.name()},
                                     {"memory.name", config.memory.name()},
                                     {"learner.name", config.learner.name()}};
  for (const OptionValue& option : config.values())
    if (!may_change_on_resume(option.name)) all.emplace_back(option.name, typed(option.text));
  return all;
}

}  // namespace engram
