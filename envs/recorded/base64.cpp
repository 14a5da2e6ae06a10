#include "envs/recorded/base64.h"

#include <cstddef>

#include "base/error.h"

namespace engram {
namespace {

// The value of a base64 digit, or -1.
int digit_value(char digit) {
  if (digit >= 'A' && digit <= 'Z') return digit - 'A';
  if (digit >= 'a' && digit <= 'z') return digit - 'a' + 26;
  if (digit >= '0' && digit <= '9') return digit - '0' + 52;
  if (digit == '+') return 62;
  if (digit == '/') return 63;
  return -1;
}

}  // namespace

std::vector<std::uint8_t> decode_base64(const std::string& text) {
  if (text.size() % 4 != 0)
    throw UserError("base64 text of " + std::to_string(text.size()) + " characters; it takes a multiple of 4");
  std::size_t padding = 0;
  while (padding < 2 && padding < text.size() && text[text.size() - 1 - padding] == '=') ++padding;

  std::vector<std::uint8_t> bytes;
  bytes.reserve(text.size() / 4 * 3);
  std::uint32_t bits = 0;
  int num_bits = 0;
  for (std::size_t i = 0; i + padding < text.size(); ++i) {
    const int value = digit_value(text[i]);
    if (value < 0) throw UserError("character " + std::to_string(i) + " of a base64 text is not a base64 digit");
    bits = bits << 6 | static_cast<std::uint32_t>(value);
    num_bits += 6;
    if (num_bits < 8) continue;
    num_bits -= 8;
    bytes.push_back(static_cast<std::uint8_t>(bits >> num_bits));
  }
  if ((bits & ((1u << num_bits) - 1)) != 0) throw UserError("base64 text with stray bits in its last digit");
  return bytes;
}

std::string encode_base64(std::span<const std::uint8_t> bytes) {
  constexpr char kDigits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::string text;
  text.reserve((bytes.size() + 2) / 3 * 4);
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t count = bytes.size() - i;  // left
    const std::uint32_t bits = static_cast<std::uint32_t>(bytes[i]) << 16 |
                               (count > 1 ? static_cast<std::uint32_t>(bytes[i + 1]) << 8 : 0u) |
                               (count > 2 ? static_cast<std::uint32_t>(bytes[i + 2]) : 0u);
    text += kDigits[bits >> 18];
    text += kDigits[bits >> 12 & 63];
    text += count > 1 ? kDigits[bits >> 6 & 63] : '=';
    text += count > 2 ? kDigits[bits & 63] : '=';
  }
  return text;
}

}  // namespace engram
