#include "base/text/whole_number.h"

#include <algorithm>
#include <cstddef>

namespace engram {
namespace {

std::string take_digits(std::string_view& text) {
  const std::size_t count = std::min(text.find_first_not_of("0123456789"), text.size());
  std::string digits(text.substr(0, count));
  text.remove_prefix(count);
  return digits;
}

bool take(std::string_view& text, char c) {
  if (!text.starts_with(c)) return false;
  text.remove_prefix(1);
  return true;
}

// The power of ten that ends the number: 6 of "M" and of "e6", 0 of nothing.
std::optional<std::size_t> take_power(std::string_view& text) {
  if (take(text, 'k')) return 3;
  if (take(text, 'M')) return 6;
  if (take(text, 'G')) return 9;
  if (!take(text, 'e') && !take(text, 'E')) return 0;
  take(text, '+');
  const std::string digits = take_digits(text);
  constexpr std::size_t kMaxDigits = 3;
  if (digits.empty() || digits.size() > kMaxDigits) return std::nullopt;
  return std::stoul(digits);
}

}  // namespace

std::optional<std::string> whole_number_digits(std::string_view text) {
  std::string number = take(text, '-') ? "-" : "";
  const std::string digits = take_digits(text);
  if (digits.empty()) return std::nullopt;
  std::string fraction;
  if (take(text, '.')) {
    fraction = take_digits(text);
    if (fraction.empty()) return std::nullopt;
    fraction.erase(fraction.find_last_not_of('0') + 1);
  }
  const std::optional<std::size_t> power = take_power(text);
  if (!power || !text.empty() || fraction.size() > *power) return std::nullopt;
  fraction.resize(*power, '0');
  return number + digits + fraction;
}

}  // namespace engram
