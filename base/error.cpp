#include "base/error.h"

#include <array>

namespace engram {

std::string one_line(const std::string& text) {
  constexpr std::array<char, 16> kDigits = {'0', '1', '2', '3', '4', '5', '6', '7', '8', '9', 'a', 'b', 'c', 'd', 'e', 'f'};
  const auto is_control = [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; };
  std::string line;
  for (const char byte : text) {
    const auto code = static_cast<unsigned char>(byte);
    if (byte == '\n')
      line += "\\n";
    else if (is_control(code))
      line += {'\\', 'x', kDigits[code >> 4], kDigits[code & 15]};
    else
      line += byte;
  }
  if (line.size() <= kMaxErrorBytes) return line;

  const std::string cut = " ... ";
  const std::size_t half = (kMaxErrorBytes - cut.size()) / 2;
  // Not in the middle of a UTF-8 character.
  const auto continues = [&line](std::size_t i) { return (static_cast<unsigned char>(line[i]) & 0xc0) == 0x80; };
  std::size_t head = half, tail = line.size() - half;
  for (int i = 0; i < 3 && continues(head); ++i) --head;
  for (int i = 0; i < 3 && continues(tail); ++i) ++tail;
  return line.substr(0, head) + cut + line.substr(tail);
}

}  // namespace engram
