#include "envs/recorded/fields.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/text/json_text.h"
#include "base/text/suggest.h"

namespace engram::recorded {
namespace {

std::string shorten(const Json& value) {
  const std::string text = json_text(value);
  return text.size() <= 40 ? text : text.substr(0, 37) + "...";
}

}  // namespace

void refuse(const std::string& field, const Json& value, const std::string& right) {
  throw UserError("'" + field + "' is " + shorten(value) + "; it takes " + right);
}

const Json& field_of(const Json& episode, const std::string& name) {
  const auto found = episode.find(name);
  if (found == episode.end()) throw UserError("there is no field '" + name + "'");
  return *found;
}

int get_int(const Json& episode, const std::string& name, std::int64_t low, std::int64_t high) {
  const Json& value = field_of(episode, name);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() || value.get<std::uint64_t>() <= static_cast<std::uint64_t>(high));
  if (!fits || value.get<std::int64_t>() < low || value.get<std::int64_t>() > high)
    refuse(name, value, "an integer " + std::to_string(low) + ".." + std::to_string(high));
  return value.get<int>();
}

std::uint64_t get_unsigned(const Json& episode, const std::string& name, std::uint64_t high) {
  const Json& value = field_of(episode, name);
  if (!value.is_number_unsigned() || value.get<std::uint64_t>() > high)
    refuse(name, value, "an integer 0.." + std::to_string(high));
  return value.get<std::uint64_t>();
}

float as_float(const std::string& name, const Json& value) {
  if (!value.is_number() || !std::isfinite(static_cast<float>(value.get<double>()))) refuse(name, value, "a number");
  return static_cast<float>(value.get<double>());
}

float get_float(const Json& episode, const std::string& name) { return as_float(name, field_of(episode, name)); }

std::vector<float> get_pairs(const Json& episode, const std::string& name, std::size_t rows) {
  std::vector<float> numbers;
  for (const Json& row : get_array(episode, name, rows)) {
    if (!row.is_array() || row.size() != 2) refuse(name, row, "two numbers a row");
    for (const Json& number : row) numbers.push_back(as_float(name, number));
  }
  return numbers;
}

bool get_bool(const Json& episode, const std::string& name) {
  const Json& value = field_of(episode, name);
  if (!value.is_boolean()) refuse(name, value, "true or false");
  return value.get<bool>();
}

std::string get_text(const Json& episode, const std::string& name) {
  const Json& value = field_of(episode, name);
  if (!value.is_string()) refuse(name, value, "a text");
  return value.get<std::string>();
}

const Json& get_array(const Json& episode, const std::string& name, std::size_t count) {
  const Json& value = field_of(episode, name);
  if (!value.is_array()) refuse(name, value, "an array");
  if (value.size() != count)
    throw UserError("'" + name + "' has " + std::to_string(value.size()) + " entries; it takes " +
                    std::to_string(count));
  return value;
}

std::vector<int> get_actions(const Json& episode, std::size_t count, int num_actions) {
  std::vector<int> actions;
  for (const Json& action : get_array(episode, "actions", count)) {
    if (!action.is_number_unsigned() || action.get<std::uint64_t>() >= static_cast<std::uint64_t>(num_actions))
      refuse("actions", action, "integers 0.." + std::to_string(num_actions - 1));
    actions.push_back(action.get<int>());
  }
  return actions;
}

std::vector<std::int32_t> get_action_rows(const Json& episode, std::size_t count, const ActionSpec& spec) {
  if (!spec.continuous()) return get_actions(episode, count, static_cast<int>(spec.names.size()));
  std::vector<std::int32_t> rows;
  for (const Json& action : get_array(episode, "actions", count)) {
    if (!action.is_array() || action.size() != spec.numbers.size())
      refuse("actions", action, "arrays of " + std::to_string(spec.numbers.size()) + " numbers");
    for (const Json& number : action) rows.push_back(word_of(as_float("actions", number)));
  }
  return rows;
}

std::vector<int> get_symbols(const Json& episode, const std::string& name, std::size_t count,
                             const std::vector<std::string>& allowed) {
  const std::string text = get_text(episode, name);
  if (text.size() != count)
    throw UserError("'" + name + "' has " + std::to_string(text.size()) + " characters; it takes " +
                    std::to_string(count));
  std::vector<int> numbers;
  for (std::size_t i = 0; i < count; ++i) {
    const std::string& of = allowed[i % allowed.size()];
    const std::size_t number = of.find(text[i]);
    if (number == std::string::npos)
      throw UserError("'" + name + "' has " + shorten(text.substr(i, 1)) + " at character " + std::to_string(i + 1) +
                      "; it takes one of " + of);
    numbers.push_back(static_cast<int>(number));
  }
  return numbers;
}

int get_word(const Json& episode, const std::string& name, const std::vector<std::string>& words) {
  const std::string word = get_text(episode, name);
  const auto found = std::ranges::find(words, word);
  if (found != words.end()) return static_cast<int>(found - words.begin());
  if (words.size() > kMostListed) throw UserError("'" + name + "' is " + shorten(word) + names_hint(word, words));
  refuse(name, word, either_of(words));
}

}  // namespace engram::recorded
