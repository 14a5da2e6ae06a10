// Stands in for libFuzzer where there is none: the target on its seeds and on kInputs mutations of them, the same ones
// every time.
//   fuzz_TARGET               runs
//   fuzz_TARGET --seeds DIR   writes the seeds into a folder that is there, for libFuzzer
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <ostream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/fuzz/target.h"

namespace engram {
namespace {

constexpr int kInputs = 20'000;
constexpr std::size_t kMaxBytes = 20'000;

// What breaks parsers: extreme numbers, other types, unclosed and deep nesting, bytes that are no text.
const std::vector<std::string> kTokens = {"0",
                                          "-1",
                                          "1e999",
                                          "18446744073709551615",
                                          "9223372036854775808",
                                          "4611686018427387904",
                                          "-0",
                                          "1e-999",
                                          "null",
                                          "true",
                                          "\"\"",
                                          "[]",
                                          "{}",
                                          "[[[[[[[[[[[[[[[[",
                                          "{\"a\":",
                                          "\"",
                                          "\\u0000",
                                          "\xff",
                                          "\n",
                                          "[",
                                          "]",
                                          "=",
                                          "#",
                                          ",",
                                          "F32",
                                          "I64",
                                          "__metadata__",
                                          "xxh3_128",
                                          "engram",
                                          "nan",
                                          "inf",
                                          ":"};

class Mutator {
 public:
  explicit Mutator(std::vector<std::string> seeds) : seeds_(std::move(seeds)) {}

  std::string next() {
    std::string text = seeds_[below(seeds_.size())];
    for (std::size_t i = 0, count = 1 + below(4); i < count; ++i) mutate(text);
    if (text.size() > kMaxBytes) text.resize(kMaxBytes);
    return text;
  }

 private:
  std::size_t below(std::size_t bound) { return random_() % bound; }

  void mutate(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(text.size() - at, 1 + below(below(8) == 0 ? 400 : 8));
    const std::string& token = kTokens[below(kTokens.size())];
    const std::string& other = seeds_[below(seeds_.size())];
    switch (below(8)) {
      case 0:
        if (at < text.size()) text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        if (at < text.size()) text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4:
        text.insert(at, token);
        break;
      case 5:
        replace_number(text, at, token);
        break;
      case 6:
        text.resize(at);
        break;
      default:
        text = text.substr(0, at) + other.substr(below(other.size() + 1));
    }
  }

  // The next number from `from` on becomes `token`.
  static void replace_number(std::string& text, std::size_t from, const std::string& token) {
    const std::size_t begin = text.find_first_of("0123456789", from);
    if (begin == std::string::npos) return;
    const std::size_t end = std::min(text.find_first_not_of("0123456789", begin), text.size());
    text.replace(begin, end - begin, token);
  }

  std::vector<std::string> seeds_;
  std::mt19937_64 random_{1};
};

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

}  // namespace
}  // namespace engram

int main(int argc, char** argv) {
  using namespace engram;
  const std::vector<std::string> seeds = fuzz_seeds();
  if (argc == 3 && std::string(argv[1]) == "--seeds") {
    for (std::size_t i = 0; i < seeds.size(); ++i)
      std::ofstream(std::filesystem::path(argv[2]) / ("seed" + std::to_string(i)), std::ios::binary) << seeds[i];
    return 0;
  }
  for (const std::string& seed : seeds) run(seed);
  Mutator mutator(seeds);
  for (int i = 0; i < kInputs; ++i) run(mutator.next());
  std::cout << seeds.size() << " seeds and " << kInputs << " mutations: taken or refused" << std::endl;
  return 0;
}
