// Damage to a text: a bit of it flipped.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <utility>

namespace engram::testing {

inline std::string flipped_bit(std::string text, std::size_t bit) {
  text[bit / 8] = static_cast<char>(text[bit / 8] ^ (1 << bit % 8));
  return text;
}

// One drawn at random.
inline std::string flipped_bit(std::string text, std::mt19937_64& random) {
  const std::size_t bit = random() % (text.size() * 8);
  return flipped_bit(std::move(text), bit);
}

}  // namespace engram::testing
