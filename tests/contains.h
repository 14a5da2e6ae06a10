// Whether a text has a part.
#pragma once

#include <string>

namespace engram::testing {

inline bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace engram::testing
