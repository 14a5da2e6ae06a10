#include "storage/settings.h"

#include <algorithm>
#include <boost/program_options/parsers.hpp>
#include <fstream>
#include <set>

namespace engram {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
}

// None where this program does not read that format.
std::optional<int> parsed_format(const std::string& text) {
  for (int format = 1; format <= kConfigFormat; ++format)
    if (text == std::to_string(format)) return format;
  return std::nullopt;
}

}  // namespace

std::string config_key(std::string text) {
  const std::size_t dot = text.rfind('.');
  std::replace(text.begin() + static_cast<std::ptrdiff_t>(dot == std::string::npos ? 0 : dot), text.end(), '-', '_');
  return text;
}

std::string config_file_text(const std::filesystem::path& file) { return "config file '" + file.string() + "'"; }

// Boost's parser, which takes or refuses the file, keeps no lines: this follows its rules for a file that it has taken.
std::optional<std::size_t> line_of(const std::filesystem::path& file, const std::string& key) {
  std::ifstream stream(file);
  std::string section, line;
  for (std::size_t number = 1; std::getline(stream, line); ++number) {
    line = trimmed(line.substr(0, line.find('#')));
    if (line.starts_with('[') && line.ends_with(']')) {
      section = line.substr(1, line.size() - 2);
      if (!section.empty() && !section.ends_with('.')) section += '.';
    } else if (const std::size_t equals = line.find('=');
               equals != std::string::npos && config_key(section + trimmed(line.substr(0, equals))) == key) {
      return number;
    }
  }
  return std::nullopt;
}

Settings read_settings(const std::filesystem::path& file) {
  const std::string where = config_file_text(file);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) throw UserError(where + " is a folder");
  std::ifstream stream(file);
  if (!stream) throw UserError(where + " cannot be read");
  return read_settings(stream, where);
}

Settings read_settings(std::istream& stream, const std::string& where) {
  namespace po = boost::program_options;
  std::vector<po::option> parsed;
  try {
    parsed = po::parse_config_file(stream, po::options_description(), true).options;
  } catch (const po::invalid_config_file_syntax& error) {
    // Not what(), which replaces %invalid_line% by the line for as long as it finds one, in the line itself, too.
    throw UserError(where + " is malformed: '" + error.tokens() + "' is neither [section] nor key = value");
  }
  Settings settings;
  std::set<std::string> seen;
  for (const po::option& option : parsed) {
    const std::string key = config_key(option.string_key);
    const std::string value = option.value.empty() ? "" : option.value.front();
    if (!seen.insert(key).second) throw UserError(where + " gives '" + key + "' twice");
    if (key == kFormatKey && !parsed_format(value))
      throw UserError(where + " is a config of another version: format '" + value +
                      "', this program reads formats 1 to " + std::to_string(kConfigFormat));
    settings.emplace_back(key, value);
  }
  return settings;
}

int config_format(const Settings& settings) {
  int format = kConfigFormat;
  for (const auto& [key, value] : settings)
    if (key == kFormatKey) format = parsed_format(value).value_or(kConfigFormat);
  return format;
}

}  // namespace engram
