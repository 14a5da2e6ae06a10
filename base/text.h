// How lists are written in one value: items between separators, and a name with settings, "hqlt:mixing=sum:window=32".
// A setting that is a list itself stands in square brackets: "gru,stack:stack=[deltanet,window:window=32],hqlt".
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace engram {

// The parts between separators, empty ones included; one part where there is no separator.
std::vector<std::string> split_text(const std::string& text, char separator);

// The same, but what stands in square brackets stays together. Throws UserError where a bracket lacks its other one.
std::vector<std::string> split_list(const std::string& text, char separator = ',');

struct NamedSettings {
  std::string name;
  std::vector<std::pair<std::string, std::string>> settings;  // key and value
};
// Of a value in square brackets, what they hold. Throws UserError where a part after the first is not key=value.
NamedSettings parse_named_settings(const std::string& entry);
// And back, with brackets where a value needs them.
std::string named_settings_text(const NamedSettings& settings);

}  // namespace engram
