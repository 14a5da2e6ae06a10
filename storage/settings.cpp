#include "storage/settings.h"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>

#include "base/text/text.h"

namespace engram {
namespace {

std::string trimmed(std::string_view text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string_view::npos ? ""
                                         : std::string(text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1));
}

// Of a line without blanks around it; empty if it is no heading. A dot at its end is not its own.
std::string section_name(const std::string& line) {
  if (!line.starts_with('[') || !line.ends_with(']')) return "";
  std::string name = trimmed(std::string_view(line).substr(1, line.size() - 2));
  if (name.ends_with('.')) name.pop_back();
  return name;
}

// None where this program does not read that format.
std::optional<int> parsed_format(const std::string& text) {
  for (int format = 1; format <= kConfigFormat; ++format)
    if (text == std::to_string(format)) return format;
  return std::nullopt;
}

void add_setting(SettingsLayer& layer, const std::string& key, std::string value, std::size_t line) {
  const auto [before, is_new] = layer.lines.try_emplace(key, line);
  if (!is_new)
    throw UserError(layer.name + " gives '" + key + "' twice, in lines " + std::to_string(before->second) + " and " +
                    std::to_string(line));
  if (key == kFormatKey && !parsed_format(value))
    throw UserError(layer.name + " is a config of another version: format '" + value +
                    "', this program reads formats 1 to " + std::to_string(kConfigFormat));
  layer.settings.emplace_back(key, std::move(value));
}

}  // namespace

const std::string* value_of(const Settings& settings, const std::string& key) {
  const auto found = std::ranges::find(settings.rbegin(), settings.rend(), key, &Settings::value_type::first);
  return found == settings.rend() ? nullptr : &found->second;
}

std::string config_key(std::string text) {
  const std::size_t dot = text.rfind('.');
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(dot == std::string::npos ? 0 : dot), text.end(), '-', '_');
  return text;
}

std::string config_file_text(const std::filesystem::path& file) { return "config file '" + file.string() + "'"; }

SettingsLayer read_settings(const std::filesystem::path& file) {
  const std::string where = config_file_text(file);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw UserError(where + " is a folder");
  std::ifstream stream(file);
  if (!stream) throw UserError(where + " cannot be read");
  return read_settings(stream, where);
}

SettingsLayer read_settings(std::istream& stream, const std::string& where) {
  SettingsLayer layer{.settings = {}, .name = where};
  std::set<std::string> with_keys;
  std::string section, line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    if (number == 1) line = std::string(without_byte_order_mark(line, where));
    line = trimmed(line.substr(0, line.find('#')));
    const std::size_t equals = line.find('=');
    if (line.empty()) continue;
    if (const std::string name = section_name(line); !name.empty()) {
      section = name;
      if (layer.lines.try_emplace("[" + name + "]", number).second) layer.sections.push_back(name);
    } else if (equals != 0 && equals != std::string::npos && !line.starts_with('[')) {
      const std::string key = trimmed(std::string_view(line).substr(0, equals));
      add_setting(layer, config_key(section.empty() ? key : section + "." + key),
                  trimmed(std::string_view(line).substr(equals + 1)), number);
      with_keys.insert(section);
    } else {
      throw UserError(where + ", line " + std::to_string(number) + " is malformed: '" + line +
                      "' is neither [section] nor key = value");
    }
  }
  if (stream.bad()) throw UserError(where + " cannot be read to its end");
  std::ranges::copy_if(layer.sections, std::back_inserter(layer.empty_sections),
                       [&](const std::string& name) { return !with_keys.contains(name); });
  return layer;
}

int config_format(const Settings& settings) {
  int format = kConfigFormat;
  for (const auto& [key, value] : settings)
    if (key == kFormatKey) format = parsed_format(value).value_or(kConfigFormat);
  return format;
}

}  // namespace engram
