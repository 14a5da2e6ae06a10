// A fuzz target: one parser, fed with any bytes. What it may do is take them or throw UserError, in one line.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

#include "base/error.h"

// The parser on one input; libFuzzer's entry point. Returns 0.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace engram {

// Valid inputs to begin with.
std::vector<std::string> fuzz_seeds();

inline void require(bool holds, const std::string& what) {
  if (holds) return;
  std::cerr << "fuzz target: " << what << std::endl;
  std::abort();
}

inline std::string text_of(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// Runs `parse`; whatever else than UserError it throws ends the program.
template <class Parse>
void take_or_refuse(const Parse& parse) {
  try {
    parse();
  } catch (const UserError& error) {
    const std::string message = error.what();
    require(!message.empty() && message.size() <= kMaxErrorBytes, "a message of " + std::to_string(message.size()));
    for (const char byte : message)
      require(static_cast<unsigned char>(byte) >= 0x20, "a control character: " + message);
  }
}

}  // namespace engram
