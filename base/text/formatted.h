// printf into a text, of any length.
#pragma once

#include <string>

namespace engram {

[[gnu::format(printf, 1, 2)]] std::string formatted(const char* format, ...);

}  // namespace engram
