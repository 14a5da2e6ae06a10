#include "base/text.h"

#include <algorithm>

#include "base/error.h"

namespace engram {

std::vector<std::string> split_text(const std::string& text, char separator) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(separator, begin), text.size());
    parts.push_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

NamedSettings parse_named_settings(const std::string& entry) {
  NamedSettings parsed;
  bool first = true;
  for (const std::string& part : split_text(entry, ':')) {
    const std::size_t equals = part.find('=');
    if (first)
      parsed.name = part;
    else if (equals == std::string::npos || equals == 0 || equals + 1 == part.size())
      throw UserError("'" + part + "' in '" + entry + "' is not key=value");
    else
      parsed.settings.emplace_back(part.substr(0, equals), part.substr(equals + 1));
    first = false;
  }
  return parsed;
}

}  // namespace engram
