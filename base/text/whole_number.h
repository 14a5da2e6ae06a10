// Whole numbers as people write them: 2000000, 2e6, 2M, 1.5M, 10k.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace engram {

// The number as plain digits, exactly and of any size: "1500000" of "1.5M". Takes digits with an optional "-" before
// them, an optional fraction, and k, M, G (thousand, million, milliard), "e" or "E" with a power of ten of up to three
// digits. Nothing for any other text, and for a number that is not whole, such as 1.5 or 1e-1.
std::optional<std::string> whole_number_digits(std::string_view text);

}  // namespace engram
