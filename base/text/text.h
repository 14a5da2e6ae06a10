// Text as people save it, what may be written at all, and how lists are written in one value: items between separators,
// and a name with settings, "hqlt:mixing=sum:window=32". A setting that is a list itself stands in square brackets:
// "gru,stack:stack=[deltanet,window:window=32],hqlt".
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace engram {

// `text` without the byte order mark of UTF-8, which some editors put before it. Throws UserError, `where` named, where
// it has the mark of UTF-16 or UTF-32. Every reader of what people may have saved begins with it.
std::string_view without_byte_order_mark(std::string_view text, const std::string& where);

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

// Whether the bytes are UTF-8 (RFC 3629): no character in more bytes than it needs, none of a surrogate.
bool is_utf8(const std::string& text);

}  // namespace engram
