// Strict base64 (RFC 4648, with padding): no white space, no missing or surplus characters.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace engram {

// Throws UserError that says what is wrong and where.
std::vector<std::uint8_t> decode_base64(const std::string& text);

std::string encode_base64(std::span<const std::uint8_t> bytes);

}  // namespace engram
