#include "apps/compare/shard.h"

#include <charconv>

#include "base/error.h"

namespace engram {

Shard parse_shard(const std::string& text) {
  Shard shard;
  const char* const end = text.data() + text.size();
  const auto first = std::from_chars(text.data(), end, shard.index);
  if (first.ec == std::errc{} && first.ptr != end && *first.ptr == '/') {
    const auto second = std::from_chars(first.ptr + 1, end, shard.count);
    if (second.ec == std::errc{} && second.ptr == end && shard.index >= 1 && shard.index <= shard.count) {
      --shard.index;
      return shard;
    }
  }
  throw UserError("--shard '" + text + "' is not allowed; it takes I/N with I from 1 to N");
}

}  // namespace engram
