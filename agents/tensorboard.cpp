#include "agents/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>

namespace engram {
namespace {

// Little-endian bytes of a fixed-width number.
template <class Unsigned>
std::string fixed(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof(value); ++i) bytes.push_back(static_cast<char>(value >> (8 * i) & 0xff));
  return bytes;
}

// Protobuf's base-128 number: seven bits a byte, low ones first, the top bit set on all but the last.
std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value >= 0x80; value >>= 7) bytes.push_back(static_cast<char>((value & 0x7f) | 0x80));
  bytes.push_back(static_cast<char>(value));
  return bytes;
}

// A field begins with (number << 3 | wire type); the wire types in use:
enum WireType : std::uint64_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

std::string key(std::uint64_t number, WireType type) { return varint(number << 3 | type); }
std::string bytes_field(std::uint64_t number, const std::string& data) {
  return key(number, kBytes) + varint(data.size()) + data;
}

// Event { double wall_time = 1; int64 step = 2; ... }
std::string event_start(double wall_seconds, std::int64_t step) {
  return key(1, kFixed64) + fixed(std::bit_cast<std::uint64_t>(wall_seconds)) + key(2, kVarint) +
         varint(static_cast<std::uint64_t>(step));
}

}  // namespace

std::uint32_t crc32c(std::span<const char> data) {
  static const std::array<std::uint32_t, 256> table = [] {
    std::array<std::uint32_t, 256> entries{};
    for (std::uint32_t i = 0; i < 256; ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit) value = (value >> 1) ^ (value & 1 ? 0x82F63B78u : 0u);
      entries[i] = value;
    }
    return entries;
  }();
  std::uint32_t crc = ~0u;
  for (const char byte : data) crc = table[(crc ^ static_cast<unsigned char>(byte)) & 0xff] ^ (crc >> 8);
  return ~crc;
}

TensorBoardWriter::TensorBoardWriter(const std::filesystem::path& file, std::uint64_t position)
    : file_(file, position) {
  if (position > 0) return;
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  // Event { string file_version = 3; } opens every file.
  write_record(event_start(now.count(), 0) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::write(std::int64_t step, double wall_seconds, std::span<const Scalar> scalars) {
  // Event { Summary summary = 5; }  Summary { repeated Value value = 1; }  Value { string tag = 1; float simple_value =
  // 2; }
  std::string summary;
  for (const auto& [tag, value] : scalars)
    summary += bytes_field(
        1, bytes_field(1, tag) + key(2, kFixed32) + fixed(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
  write_record(event_start(wall_seconds, step) + bytes_field(5, summary));
}

void TensorBoardWriter::write_record(const std::string& data) {
  // TFRecord: length, masked CRC of the length, data, masked CRC of the data.
  const auto masked_crc = [](const std::string& bytes) { return fixed(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u); };
  const std::string length = fixed(static_cast<std::uint64_t>(data.size()));
  file_.append(length + masked_crc(length) + data + masked_crc(data));
}

}  // namespace engram
