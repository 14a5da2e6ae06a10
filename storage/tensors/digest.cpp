#include "storage/tensors/digest.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

namespace engram {

struct Digest::State {
  XXH3_state_t xxh3;  // aligned by its declaration, which operator new honours
};

Digest::Digest() : state_(std::make_unique<State>()) { XXH3_128bits_reset(&state_->xxh3); }
Digest::~Digest() = default;

void Digest::update(const void* bytes, std::size_t count) { XXH3_128bits_update(&state_->xxh3, bytes, count); }

std::string Digest::hex() const {
  XXH128_canonical_t canonical;
  XXH128_canonicalFromHash(&canonical, XXH3_128bits_digest(&state_->xxh3));
  std::string digits;
  for (const unsigned char byte : canonical.digest) {
    digits += "0123456789abcdef"[byte >> 4];
    digits += "0123456789abcdef"[byte & 15];
  }
  return digits;
}

}  // namespace engram
