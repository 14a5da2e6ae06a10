// Digest: XXH3-128 of bytes that come in pieces. It finds damage (a flipped bit always changes it), not forgery.
// Source: Collet, "xxHash fast digest algorithm", specification of XXH3.
#pragma once

#include <cstddef>
#include <memory>
#include <string>

namespace engram {

class Digest {
 public:
  static constexpr std::size_t kDigits = 32;

  Digest();
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;

  void update(const void* bytes, std::size_t count);
  // The digest of all bytes so far: kDigits lower-case hexadecimal digits, the high half first (the canonical form).
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace engram
