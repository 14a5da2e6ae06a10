#include "base/text/words.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "base/text/formatted.h"

namespace engram {
namespace {

bool is_control(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; }

// As Python's shlex.quote() has them.
bool needs_no_quotes(char c) {
  constexpr std::string_view kOthers = "_@%+=:,./-";
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
         kOthers.find(c) != std::string_view::npos;
}

}  // namespace

std::string duration_text(double seconds) {
  constexpr double kMost = 1e6 * 86'400;
  if (!(seconds < kMost)) return "for ever";
  const long long whole = std::llround(seconds);
  const auto two_units = [](long long large, const char* large_name, long long small, const char* small_name) {
    return formatted("%lld%s%02lld%s", large, large_name, small, small_name);
  };
  if (whole < 60) return std::to_string(whole) + "s";
  if (whole < 3600) return two_units(whole / 60, "m", whole % 60, "s");
  if (whole < 2 * 86'400) return two_units(whole / 3600, "h", whole % 3600 / 60, "m");
  return two_units(whole / 86'400, "d", whole % 86'400 / 3600, "h");
}

std::string shell_word(const std::string& word) {
  if (!word.empty() && std::ranges::all_of(word, needs_no_quotes)) return word;
  std::string quoted;
  if (std::ranges::none_of(word, is_control)) {
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return "'" + quoted + "'";
  }
  for (const char c : word) {
    if (c == '\'' || c == '\\') quoted += '\\';
    quoted += is_control(c) ? formatted("\\%03o", static_cast<unsigned>(c)) : std::string(1, c);
  }
  return "$'" + quoted + "'";
}

std::string shell_command(const std::vector<std::string>& words) {
  std::string command;
  for (const std::string& word : words) {
    if (!command.empty()) command += ' ';
    command += shell_word(word);
  }
  return command;
}

}  // namespace engram
