#include "base/text/formatted.h"

#include <cstdarg>
#include <cstddef>
#include <cstdio>

namespace engram {

std::string formatted(const char* format, ...) {
  std::va_list arguments, again;
  va_start(arguments, format);
  va_copy(again, arguments);
  std::string text(static_cast<std::size_t>(std::vsnprintf(nullptr, 0, format, arguments)), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, again);
  va_end(again);
  va_end(arguments);
  return text;
}

}  // namespace engram
