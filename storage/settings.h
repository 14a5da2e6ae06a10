// Settings as text, from INI files, and messages about them: which line of which file a refused one stands in.
#pragma once

#include <cstddef>
#include <filesystem>
#include <istream>
#include <optional>
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

// A setting that is refused: its key is unknown, or its value is not allowed.
class SettingError : public UserError {
 public:
  SettingError(std::string key, const std::string& message) : UserError(message), key_(std::move(key)) {}
  const std::string& key() const { return key_; }  // section.key

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

// A key as it stands in a file, as options are called: with "_" for each "-" of its last part.
std::string config_key(std::string text);

// "config file 'c.ini'", for the messages about it.
std::string config_file_text(const std::filesystem::path& file);

// The number of the line, from 1, in which the INI file sets `key`; none if it does not, or cannot be read.
std::optional<std::size_t> line_of(const std::filesystem::path& file, const std::string& key);

// Calls `action` and lets what it throws through, a SettingError about a key that `file` sets with the file and the
// line before its message. `typed`: settings that win over those of the file, such as the command line's; what these
// give is not the file's.
template <class Action>
auto naming_line(const std::filesystem::path& file, const Settings& typed, const Action& action) {
  try {
    return action();
  } catch (const SettingError& error) {
    for (const auto& [key, value] : typed)
      if (key == error.key()) throw;
    const std::optional<std::size_t> line = line_of(file, error.key());
    if (!line) throw;
    throw SettingError(error.key(), config_file_text(file) + ", line " + std::to_string(*line) + ": " + error.what());
  }
}

// Reads an INI file through Boost.Program_options. Throws UserError for an unreadable or malformed file, a key given
// twice, or a file of a later format. The file's format is the setting "format".
Settings read_settings(const std::filesystem::path& file);

// The same from a stream; `where` names it in messages.
Settings read_settings(std::istream& stream, const std::string& where);

// The format that settings were written in: that of the last setting "format", else this program's.
inline constexpr const char* kFormatKey = "format";
int config_format(const Settings& settings);

}  // namespace engram
