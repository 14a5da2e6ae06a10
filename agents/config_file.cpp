#include "agents/config_file.h"

#include <algorithm>
#include <fstream>

namespace engram {
namespace {

std::string trimmed(const std::string& text) {
  constexpr const char* kBlanks = " \t\r\n";
  const std::size_t begin = text.find_first_not_of(kBlanks);
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(kBlanks) - begin + 1);
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

Config read_config(const std::filesystem::path& file) {
  return naming_line(file, {}, [&] { return Config::from_settings(read_settings(file)); });
}

}  // namespace engram
