// Typed access to the fields of a recorded episode, a JSON object. Every error is a UserError that names the field.
#pragma once

#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "envs/action.h"

namespace engram::recorded {

using Json = nlohmann::json;

// Throws the error: 'field' is VALUE; it takes `right`.
[[noreturn]] void refuse(const std::string& field, const Json& value, const std::string& right);

const Json& field_of(const Json& episode, const std::string& name);
int get_int(const Json& episode, const std::string& name, std::int64_t low, std::int64_t high);
std::uint64_t get_unsigned(const Json& episode, const std::string& name, std::uint64_t high);
float as_float(const std::string& name, const Json& value);
// Rows of two numbers, as float32, one after the other.
std::vector<float> get_pairs(const Json& episode, const std::string& name, std::size_t rows);
float get_float(const Json& episode, const std::string& name);
bool get_bool(const Json& episode, const std::string& name);
std::string get_text(const Json& episode, const std::string& name);
// An array of exactly `count` entries.
const Json& get_array(const Json& episode, const std::string& name, std::size_t count);
std::vector<int> get_actions(const Json& episode, std::size_t count, int num_actions);
// The rows of `count` actions (envs/action.h): a number each, or of a continuous action an array of its numbers.
std::vector<std::int32_t> get_action_rows(const Json& episode, std::size_t count, const ActionSpec& spec);
// A text of exactly `count` characters out of `allowed`, whose texts take turns; as places in these.
std::vector<int> get_symbols(const Json& episode, const std::string& name, std::size_t count,
                             const std::vector<std::string>& allowed);
// One of the words, as its place among them.
int get_word(const Json& episode, const std::string& name, const std::vector<std::string>& words);

}  // namespace engram::recorded
