// Settings as text, from INI files and command lines, in layers of rising precedence; and messages about them: which
// line of which file a refused one stands in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <map>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace engram {

// (section.key, value) in the order given.
using Settings = std::vector<std::pair<std::string, std::string>>;

// Of config files; key "format" of a saved config. A file of an earlier format means by leaving a key out what programs
// of its time did, where that is not today's default (Option::since); one without a format is of this one.
inline constexpr int kConfigFormat = 2;

// What one source sets, such as a config file or a command line.
struct SettingsLayer {
  Settings settings;
  std::string name = {};  // of the source, for messages: "config file 'c.ini'", kCommandLine
  // Of a file: the names of its sections, in their order, and of those among them that have no keys.
  std::vector<std::string> sections = {}, empty_sections = {};
  // The line of the file, from 1, in which it sets a key or, as "[section]", first begins a section.
  std::map<std::string, std::size_t> lines = {};
};

// From the lowest to the highest. A layer wins over those before it as a whole: what its preset sets, too.
using SettingsLayers = std::vector<SettingsLayer>;

inline constexpr const char* kCommandLine = "the command line";

// A setting that is refused: its key is unknown, or its value is not allowed.
class SettingError : public UserError {
 public:
  SettingError(std::string key, const std::string& message) : UserError(message), key_(std::move(key)) {}
  const std::string& key() const { return key_; }  // section.key, or [section]

 private:
  std::string key_;
};

// Calls `action`; a UserError that it throws becomes one about this key.
template <class Action>
auto about_key(const std::string& key, const Action& action) {
  try {
    return action();
  } catch (const UserError& error) {
    throw SettingError(key, error.what());
  }
}

// The last value of the key, or null.
const std::string* value_of(const Settings& settings, const std::string& key);

// A key as it stands in a file, as options are called: with "_" for each "-" of its last part.
std::string config_key(std::string text);

// "config file 'c.ini'", for the messages about it.
std::string config_file_text(const std::filesystem::path& file);

// Calls `action` and lets what it throws through; a SettingError about a key that a file gives, and no layer above it,
// becomes a UserError with the file and the line before its message.
template <class Action>
auto naming_line(const SettingsLayers& layers, const Action& action) {
  try {
    return action();
  } catch (const SettingError& error) {
    for (const SettingsLayer& layer : layers | std::views::reverse) {
      if (const auto line = layer.lines.find(error.key()); line != layer.lines.end())
        throw UserError(layer.name + ", line " + std::to_string(line->second) + ": " + error.what());
      if (value_of(layer.settings, error.key()) != nullptr) throw;
    }
    throw;
  }
}

// Reads an INI file: [section] and key = value, a line each; # begins a comment. A key is section.key. Throws UserError
// for an unreadable or malformed file, a key given twice, or a file of a later format. The file's format is the setting
// "format".
SettingsLayer read_settings(const std::filesystem::path& file);

// The same from a stream; `where` names it in messages.
SettingsLayer read_settings(std::istream& stream, const std::string& where);

// The format that settings were written in: that of the last setting "format", else this program's.
inline constexpr const char* kFormatKey = "format";
int config_format(const Settings& settings);

}  // namespace engram
