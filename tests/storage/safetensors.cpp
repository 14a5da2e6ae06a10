#include "storage/tensors/safetensors.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <random>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "storage/tensors/digest.h"
#include "storage/tensors/safetensors_summary.h"
#include "tests/flipped_bit.h"
#include "tests/storage/temporary_folder.h"

using namespace engram;

namespace {

TensorMap some_tensors() {
  return {{"wide", torch::arange(6, torch::kFloat64).view({2, 3})},
          {"usual", torch::arange(8, torch::kFloat32).view({2, 2, 2}) / 3},
          {"long", torch::tensor({-1, 1 << 30}, torch::kInt64)},
          {"int", torch::tensor({-5}, torch::kInt32)},
          {"bytes", torch::tensor({0, 255, 7}, torch::kUInt8)},
          {"scalar", torch::tensor(2.5f)},
          {"empty", torch::zeros({0, 4})}};
}

// A file with this header in front of `bytes` bytes.
std::string file_text(const std::string& header, std::size_t bytes) {
  const std::uint64_t length = header.size();
  std::string text(sizeof(length), '\0');
  std::memcpy(text.data(), &length, sizeof(length));
  return text + header + std::string(bytes, '\0');
}

std::string load_error(const std::filesystem::path& file) {
  return message_of<UserError>([&] { load_safetensors(file); });
}

// What the reader says about these bytes; "nothing was thrown" if it takes them.
std::string read_error(const std::string& text) {
  std::istringstream stream(text);
  return message_of<UserError>([&] { read_safetensors(stream, text.size(), "it"); });
}

std::string saved_text(const TensorMap& tensors, const std::map<std::string, std::string>& metadata) {
  const TemporaryFolder folder;
  save_safetensors(folder / "w", tensors, metadata);
  return read_text(folder / "w");
}

// Of a small checkpoint: text in the metadata, tensors of every type, one large enough to leave the header behind.
std::string checkpoint_text() {
  TensorMap tensors = some_tensors();
  tensors["moments"] = torch::linspace(-1, 1, 700, torch::kFloat64);
  tensors["replay.observations"] = torch::arange(900, torch::kInt64).remainder(256).to(torch::kUInt8).view({4, 9, 25});
  return saved_text(tensors, {{"engram", "0.1.0"}, {"progress", R"({"steps":12,"xxh3_128":"0"})"}});
}

std::string header_error(const std::string& header, std::size_t bytes) { return read_error(file_text(header, bytes)); }

std::string entry_error(const std::string& dtype, const std::string& shape, const std::string& offsets,
                        std::size_t bytes = 8) {
  return header_error("{\"x\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}}",
                      bytes);
}

}  // namespace

TEST_CASE("tensors of every type survive a round trip") {
  const TemporaryFolder folder;
  const TensorMap tensors = some_tensors();
  save_safetensors(folder / "w", tensors, {{"note", "with \"quotes\" and\nlines"}});
  const SafetensorsFile file = load_safetensors(folder / "w");
  CHECK(file.digest_checked);
  CHECK(file.metadata.at("note") == "with \"quotes\" and\nlines");
  REQUIRE(file.tensors.size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    CHECK((file.tensors.at(name).scalar_type() == tensor.scalar_type()));
    CHECK(torch::equal(file.tensors.at(name), tensor));
  }
  // The header's length lets every tensor lie aligned.
  std::uint64_t header_bytes = 0;
  std::memcpy(&header_bytes, read_text(folder / "w").data(), sizeof(header_bytes));
  CHECK(header_bytes % 8 == 0);
}

TEST_CASE("a summary describes the tensors, checks the digest and refuses damage") {
  const TemporaryFolder folder;
  const TensorMap tensors = some_tensors();
  save_safetensors(folder / "w", tensors, {{"note", "text"}});
  const SafetensorsSummary summary = summarize_safetensors(folder / "w");
  CHECK(summary.digest_checked);
  CHECK(summary.bytes == std::filesystem::file_size(folder / "w"));
  CHECK(summary.metadata.at("note") == "text");
  REQUIRE(summary.tensors.size() == tensors.size());
  for (const auto& tensor : summary.tensors) {
    CAPTURE(tensor.name);
    CHECK(tensor.shape == tensors.at(tensor.name).sizes().vec());
    CHECK(tensor.bytes == tensors.at(tensor.name).nbytes());
  }
  const auto error = [&](const std::string& text) {
    write_text(folder / "x", text);
    return message_of<UserError>([&] { summarize_safetensors(folder / "x"); });
  };
  const std::string whole = read_text(folder / "w");
  for (std::size_t byte = 0; byte < whole.size(); ++byte) {
    std::string damaged = whole;
    damaged[byte] = static_cast<char>(damaged[byte] ^ 4);
    REQUIRE_MESSAGE(mentions(error(damaged), "' is damaged: "), byte);
    REQUIRE_MESSAGE(mentions(error(whole.substr(0, byte)), "' is damaged: "), byte);
  }
  // Types that only summaries take.
  const std::string half = "{\"x\":{\"dtype\":\"I16\",\"shape\":[4],\"data_offsets\":[0,8]}}";
  CHECK(error(file_text(half, 8)) == "nothing was thrown");
  CHECK_FALSE(summarize_safetensors(folder / "x").digest_checked);
  CHECK(mentions(error(file_text(half, 7)), "do not end where the file ends"));
}

TEST_CASE("a whole file of types that are not loaded is not called damaged") {
  // Of eight elements each.
  const std::vector<std::pair<std::string, int>> types = {
      {"BOOL", 8},        {"I8", 8},          {"I16", 16},    {"U16", 16},    {"U32", 32},
      {"U64", 64},        {"C64", 64},        {"F8_E4M3", 8}, {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6}, {"F4", 4}};
  for (const auto& [name, bits] : types) {
    CAPTURE(name);
    const std::string bytes = std::to_string(bits);
    const std::string text =
        file_text("{\"x\":{\"dtype\":\"" + name + "\",\"shape\":[2,4],\"data_offsets\":[0," + bytes + "]}}", bits);
    CHECK(read_error(text) ==
          "it: tensor 'x' has the type " + name + ", and engram loads F64, F32, I64, I32, U8, BF16, F16");
    std::istringstream stream(text);
    CHECK(summarize_safetensors(stream, text.size(), "it").tensors.at(0).dtype == name);
    CHECK(mentions(read_error(text.substr(0, text.size() - 1)), "it is damaged: "));
  }
}

TEST_CASE("bfloat16 and float16 of other programs load as float32, every value exactly") {
  constexpr std::int64_t kValues = 1 << 16;
  const torch::Tensor bits = torch::arange(kValues, torch::kInt32);
  const torch::Tensor patterns = torch::where(bits < kValues / 2, bits, bits - kValues).to(torch::kInt16);
  for (const auto& [name, type] : {std::pair("BF16", torch::kBFloat16), std::pair("F16", torch::kFloat16)}) {
    CAPTURE(name);
    std::string text =
        file_text("{\"x\":{\"dtype\":\"" + std::string(name) + "\",\"shape\":[256,256],\"data_offsets\":[0,131072]}}",
                  2 * kValues);
    std::memcpy(text.data() + text.size() - 2 * kValues, patterns.const_data_ptr(), 2 * kValues);
    std::istringstream stream(text);
    const torch::Tensor loaded = read_safetensors(stream, text.size(), "it").tensors.at("x");
    REQUIRE((loaded.scalar_type() == torch::kFloat32));
    CHECK(loaded.sizes() == torch::IntArrayRef({256, 256}));
    // By the definition of either: sign, exponent and fraction.
    const auto fraction_bits = type == torch::kBFloat16 ? 7 : 10, bias = type == torch::kBFloat16 ? 127 : 15;
    const auto exponents = type == torch::kBFloat16 ? 255 : 31;
    const float* const values = loaded.const_data_ptr<float>();
    for (int pattern = 0; pattern < kValues; ++pattern) {
      const int exponent = pattern >> fraction_bits & exponents, fraction = pattern & ((1 << fraction_bits) - 1);
      const double sign = pattern >> 15 ? -1 : 1, scaled = std::ldexp(fraction, -fraction_bits);
      const double expected = exponent == 0           ? sign * std::ldexp(scaled, 1 - bias)
                              : exponent != exponents ? sign * std::ldexp(1 + scaled, exponent - bias)
                              : fraction == 0         ? sign * std::numeric_limits<double>::infinity()
                                                      : std::nan("");
      const bool equal = std::isnan(expected) ? std::isnan(values[pattern]) : values[pattern] == expected;
      REQUIRE_MESSAGE(equal, pattern);
    }
  }
  CHECK_THROWS_AS(saved_text({{"x", torch::ones({2}, torch::kBFloat16)}}, {}), std::invalid_argument);
}

TEST_CASE("names and metadata that are no UTF-8 do not stop a file from being written") {
  const std::string text = saved_text({{"caf\xe9", torch::ones({1})}}, {{"note", "\xff!"}});
  std::istringstream stream(text);
  const SafetensorsFile file = read_safetensors(stream, text.size(), "it");
  CHECK(file.metadata.at("note") == "\xef\xbf\xbd!");  // U+FFFD
  CHECK(file.tensors.contains("caf\xef\xbf\xbd"));
}

TEST_CASE("a non-contiguous tensor is written by its values") {
  const TemporaryFolder folder;
  const torch::Tensor transposed = torch::arange(6, torch::kFloat32).view({2, 3}).t();
  save_safetensors(folder / "w", {{"x", transposed}}, {});
  CHECK(torch::equal(load_safetensors(folder / "w").tensors.at("x"), transposed));
}

TEST_CASE("a file cut at any length is refused, and a longer one") {
  for (const std::string& whole : {saved_text(some_tensors(), {{"a", "b"}}), checkpoint_text()}) {
    for (std::size_t length = 0; length < whole.size(); ++length) {
      CAPTURE(length);
      REQUIRE(mentions(read_error(whole.substr(0, length)), "is damaged"));
    }
    CHECK(mentions(read_error(whole + "x"), "do not end where the file ends"));
  }
  const TemporaryFolder folder;
  write_text(folder / "cut", checkpoint_text().substr(0, 1000));
  CHECK(mentions(load_error(folder / "cut"), "weights file '" + (folder / "cut").string() + "' is damaged"));
}

TEST_CASE("every bit of a small file and 10,000 random ones of a larger count") {
  const auto refused = [](const std::string& text, std::size_t bit) {
    const std::string message = read_error(testing::flipped_bit(text, bit));
    const bool readable = std::ranges::all_of(message, [](unsigned char byte) { return byte >= 0x20; });
    return mentions(message, "it is damaged: ") && message.size() <= kMaxErrorBytes && readable;
  };
  const std::string small = saved_text({{"ab", torch::ones({2, 3})}, {"c", torch::ones({4}, torch::kInt64)}}, {});
  REQUIRE(read_error(small) == "nothing was thrown");
  for (std::size_t bit = 0; bit < small.size() * 8; ++bit) REQUIRE_MESSAGE(refused(small, bit), bit);

  const std::string large = checkpoint_text();
  REQUIRE(read_error(large) == "nothing was thrown");
  std::mt19937_64 random(1);
  for (int i = 0; i < 10'000; ++i) {
    const std::size_t bit = random() % (large.size() * 8);
    REQUIRE_MESSAGE(refused(large, bit), bit);
  }
}

TEST_CASE("the digest is XXH3-128 of the file with its digits zeroed") {
  std::string text = checkpoint_text();
  const std::string key = "\"xxh3_128\":\"";
  const std::size_t position = text.find(key) + key.size();
  const std::string digits = text.substr(position, 32);
  text.replace(position, 32, 32, '0');
  Digest digest;
  for (std::size_t done = 0; done < text.size(); done += 77)
    digest.update(text.data() + done, std::min<std::size_t>(77, text.size() - done));
  CHECK(digest.hex() == digits);
  // xxHash's own tool on empty input: `xxh128sum < /dev/null`.
  CHECK(Digest().hex() == "99aa06d3014798d86001c324468d497f");
}

TEST_CASE("a file of engram needs its digest, one of others does not") {
  const std::string tensor = "\"x\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
  const auto with = [&tensor](const std::string& metadata) {
    return file_text("{\"__metadata__\":{" + metadata + "}," + tensor + "}", 8);
  };
  const auto checked = [](const std::string& text) {
    std::istringstream stream(text);
    return read_safetensors(stream, text.size(), "it").digest_checked;
  };
  CHECK_FALSE(checked(file_text("{" + tensor + "}", 8)));
  CHECK_FALSE(checked(with("\"format\":\"pt\"")));
  CHECK(mentions(read_error(with("\"engram\":\"0.1.0\"")), "its digest is missing"));
  const std::string zeros(32, '0');
  CHECK(mentions(read_error(with("\"xxh3_128\":\"" + zeros + "\"")), "its digest does not match"));
  CHECK(mentions(read_error(with("\"xxh3_128\": \"" + zeros + "\"")), "its digest is malformed"));
  CHECK(mentions(read_error(with("\"xxh3_128\":\"\"")), "its digest is malformed"));
  CHECK(mentions(read_error(with("\"xxh3_128\":\"" + zeros + "0\"")), "its digest is malformed"));
}

TEST_CASE("hostile headers are refused with a reason") {
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]"), "nothing was thrown"));
  CHECK(mentions(entry_error("F99", "[4]", "[0,8]"), "it is damaged: tensor 'x' has the unknown dtype \"F99\""));
  CHECK(mentions(entry_error("F4", "[3]", "[0,1]", 1), "ends within a byte"));
  CHECK(mentions(entry_error("F6_E2M3", "[2,2]", "[0,4]", 4), "do not fit its shape"));
  CHECK(mentions(entry_error("F32", "[3]", "[0,8]"), "do not fit its shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[8,0]"), "do not fit its shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[-8,0]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[-2]", "[0,8]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[2.0]", "[0,8]"), "not a whole number"));
  CHECK(mentions(entry_error("F32", "[2]", "[8,16]", 16), "does not begin where"));
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]", 12), "do not end where"));
  CHECK(mentions(entry_error("F32", "[2]", "[0,8]", 4), "do not end where"));
  CHECK(mentions(entry_error("F32", "[2,4611686018427387904]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "[18446744073709551615]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "[0,4611686018427387904,4611686018427387904]", "[0,0]", 0), "too large"));
  CHECK(mentions(entry_error("F32", "[4611686018427387906]", "[0,8]"), "too large"));
  CHECK(mentions(entry_error("F32", "\"2\"", "[0,8]"), "malformed shape"));
  CHECK(mentions(entry_error("F32", "[2]", "[0]"), "malformed data_offsets"));
  CHECK(mentions(header_error("{\"x\":3}", 0), "not described by"));
  CHECK(mentions(header_error("[]", 0), "not a JSON object"));
  CHECK(mentions(header_error("{", 0), "not valid JSON"));
  CHECK(mentions(header_error("{}x", 0), "not valid JSON"));
  CHECK(mentions(header_error("{\"__metadata__\":{\"a\":1}}", 0), "something else than text"));
  CHECK(mentions(header_error("{\"__metadata__\":[]}", 0), "metadata is not an object"));
  const std::string entry = "{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}";
  CHECK(mentions(header_error("{\"x\":" + entry + ",\"y\":" + entry + "}", 8), "does not begin where"));
  CHECK(mentions(header_error("{\"x\":" + entry + ",\"x\":" + entry + "}", 8), "names 'x' twice"));
  const std::string deep = "{\"x\":" + std::string(1'000'000, '[');
  CHECK(mentions(header_error(deep, 0), "nested too deeply"));
}

TEST_CASE("a missing file and a folder are named") {
  const TemporaryFolder folder;
  CHECK(mentions(load_error(folder / "none"), "none' does not exist"));
  CHECK(mentions(load_error(folder.path()), "is not a file"));
}
