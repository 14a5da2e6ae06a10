// The text of JSON: the one place where it is made from what programs and people name. File names, command lines and
// names of one's own may hold any bytes; JSON holds UTF-8 alone, and nlohmann's dump() throws where it meets others.
#pragma once

#include <string>

namespace engram {

// `indent`: spaces a level, or all in one line. What is no UTF-8 becomes U+FFFD.
template <class Json>
std::string json_text(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

}  // namespace engram
