#include "envs/recorded/base64.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"

using namespace engram;

TEST_CASE("the test vectors of RFC 4648") {
  const auto decode = [](const std::string& text) {
    const std::vector<std::uint8_t> bytes = decode_base64(text);
    return std::string(bytes.begin(), bytes.end());
  };
  CHECK(decode("") == "");
  CHECK(decode("Zg==") == "f");
  CHECK(decode("Zm8=") == "fo");
  CHECK(decode("Zm9v") == "foo");
  CHECK(decode("Zm9vYg==") == "foob");
  CHECK(decode("Zm9vYmE=") == "fooba");
  CHECK(decode("Zm9vYmFy") == "foobar");
  CHECK(decode_base64("+/+/") == std::vector<std::uint8_t>{0xfb, 0xff, 0xbf});
}

TEST_CASE("what is encoded decodes to the same bytes, and to the RFC's text") {
  const auto encode = [](const std::string& bytes) {
    return encode_base64(std::vector<std::uint8_t>(bytes.begin(), bytes.end()));
  };
  CHECK(encode("") == "");
  CHECK(encode("f") == "Zg==");
  CHECK(encode("fo") == "Zm8=");
  CHECK(encode("foo") == "Zm9v");
  CHECK(encode("foobar") == "Zm9vYmFy");
  std::vector<std::uint8_t> bytes;
  for (int i = 0; i < 300; ++i) {
    CHECK(decode_base64(encode_base64(bytes)) == bytes);
    bytes.push_back(static_cast<std::uint8_t>(i * 7));
  }
}

TEST_CASE("anything else is refused") {
  for (const char* bad : {"Z", "Zg", "Zg=", "Zm9v\n", "Zm 9", "Zm9-", "Z===", "====", "Zg==Zg==", "Zh==", "Zm9="})
    CHECK_THROWS_AS(decode_base64(bad), UserError);
}
