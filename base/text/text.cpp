#include "base/text/text.h"

#include <algorithm>
#include <cstddef>

#include "base/error.h"

namespace engram {
namespace {

// "[a,b]" without its brackets; anything else, "[a],[b]" too, as it is.
std::string without_brackets(const std::string& value) {
  int open = 0;
  for (std::size_t i = 0; i < value.size(); ++i) {
    open += (value[i] == '[') - (value[i] == ']');
    if (open == 0) return i > 0 && i + 1 == value.size() ? value.substr(1, i - 1) : value;
  }
  return value;
}

}  // namespace

std::string_view without_byte_order_mark(std::string_view text, const std::string& where) {
  using namespace std::string_view_literals;
  constexpr std::string_view kUtf8 = "\xef\xbb\xbf"sv;
  for (const std::string_view other : {"\xff\xfe"sv, "\xfe\xff"sv, "\0\0\xfe\xff"sv})
    if (text.starts_with(other)) throw UserError(where + " is UTF-16 or UTF-32; save it as UTF-8");
  return text.starts_with(kUtf8) ? text.substr(kUtf8.size()) : text;
}

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

std::vector<std::string> split_list(const std::string& text, char separator) {
  std::vector<std::string> parts(1);
  int open = 0;
  for (const char c : text) {
    if (c == '[') ++open;
    if (c == ']' && --open < 0) break;
    if (c == separator && open == 0)
      parts.emplace_back();
    else
      parts.back() += c;
  }
  if (open != 0) throw UserError("'" + text + "' has a square bracket without its other one");
  return parts;
}

NamedSettings parse_named_settings(const std::string& entry) {
  NamedSettings parsed;
  bool first = true;
  for (const std::string& part : split_list(entry, ':')) {
    const std::size_t equals = part.find('=');
    if (first)
      parsed.name = part;
    else if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      throw UserError("'" + part + "' in '" + entry + "' is not key=value");
    else
      parsed.settings.emplace_back(part.substr(0, equals), without_brackets(part.substr(equals + 1)));
    first = false;
  }
  return parsed;
}

std::string named_settings_text(const NamedSettings& settings) {
  std::string text = settings.name;
  for (const auto& [key, value] : settings.settings) {
    const bool is_list = value.find_first_of(":,[") != std::string::npos;
    text += ":" + key + "=" + (is_list ? "[" + value + "]" : value);
  }
  return text;
}

bool is_utf8(const std::string& text) {
  const auto at = [&](std::size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  for (std::size_t i = 0; i < text.size();) {
    const unsigned first = at(i);
    const std::size_t bytes = first < 0x80   ? 1
                              : first < 0xc2 ? 0
                              : first < 0xe0 ? 2
                              : first < 0xf0 ? 3
                              : first < 0xf5 ? 4
                                             : 0;
    if (bytes == 0) return false;
    // The second byte of the shortest form, of no surrogate (U+D800 to U+DFFF), up to U+10FFFF.
    const unsigned least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    for (std::size_t next = 1; next < bytes; ++next)
      if (at(i + next) < (next == 1 ? least : 0x80) || at(i + next) > (next == 1 ? most : 0xbf)) return false;
    i += bytes;
  }
  return true;
}

}  // namespace engram
