#include "storage/log/tensorboard.h"

#include <array>
#include <bit>
#include <chrono>
#include <cstddef>

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
std::string varint_field(std::uint64_t number, std::uint64_t value) { return key(number, kVarint) + varint(value); }
std::string double_bytes(double value) { return fixed(std::bit_cast<std::uint64_t>(value)); }
std::string double_field(std::uint64_t number, double value) { return key(number, kFixed64) + double_bytes(value); }
std::string doubles_field(std::uint64_t number, const std::vector<double>& values) {
  std::string data;
  for (const double value : values) data += double_bytes(value);
  return bytes_field(number, data);
}

// Event { double wall_time = 1; int64 step = 2; ... }
std::string event_start(double wall_seconds, std::int64_t step) {
  return double_field(1, wall_seconds) + varint_field(2, static_cast<std::uint64_t>(step));
}

// Summary { repeated Value value = 1; }  Value { string tag = 1; ... }
std::string tagged_value(const std::string& tag, const std::string& value) {
  return bytes_field(1, bytes_field(1, tag) + value);
}

// HistogramProto { double min = 1; max = 2; num = 3; sum = 4; sum_squares = 5; repeated double bucket_limit = 6; bucket
// = 7; }
std::string encoded(const Histogram& histogram) {
  return double_field(1, histogram.min) + double_field(2, histogram.max) + double_field(3, histogram.count) +
         double_field(4, histogram.sum) + double_field(5, histogram.sum_of_squares) +
         doubles_field(6, histogram.limits) + doubles_field(7, histogram.counts);
}

// google.protobuf.Value { double number_value = 2; string string_value = 3; bool bool_value = 4; }
std::string encoded(const std::variant<bool, double, std::string>& value) {
  if (const auto* const truth = std::get_if<bool>(&value)) return varint_field(4, *truth ? 1 : 0);
  if (const auto* const number = std::get_if<double>(&value)) return double_field(2, *number);
  return bytes_field(3, std::get<std::string>(value));
}

}  // namespace

double wall_clock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

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
  // Event { string file_version = 3; } opens every file.
  write_record(event_start(wall_clock(), 0) + bytes_field(3, "brain.Event:2"));
}

void TensorBoardWriter::write(std::int64_t step, double wall_seconds, std::span<const Scalar> scalars) {
  // Value { float simple_value = 2; }
  std::string values;
  for (const auto& [tag, value] : scalars)
    values += tagged_value(tag, key(2, kFixed32) + fixed(std::bit_cast<std::uint32_t>(static_cast<float>(value))));
  write_summary(step, wall_seconds, values);
}

void TensorBoardWriter::write_histograms(std::int64_t step, double wall_seconds,
                                         std::span<const std::pair<std::string, Histogram>> histograms) {
  // Value { HistogramProto histo = 5; }
  std::string values;
  for (const auto& [tag, histogram] : histograms) values += tagged_value(tag, bytes_field(5, encoded(histogram)));
  write_summary(step, wall_seconds, values);
}

void TensorBoardWriter::write_image(std::int64_t step, double wall_seconds, const std::string& tag, int width,
                                    int height, const std::string& encoded) {
  // Value { Image image = 4; }  Image { int32 height = 1; width = 2; colorspace = 3; bytes encoded_image_string = 4; }
  constexpr std::uint64_t kRgb = 3;
  write_summary(step, wall_seconds,
                tagged_value(tag, bytes_field(4, varint_field(1, static_cast<std::uint64_t>(height)) +
                                                     varint_field(2, static_cast<std::uint64_t>(width)) +
                                                     varint_field(3, kRgb) + bytes_field(4, encoded))));
}

void TensorBoardWriter::write_session_start(double wall_seconds, std::span<const Hyperparameter> hyperparameters) {
  // SessionStartInfo { map<string, google.protobuf.Value> hparams = 1; double start_time_secs = 5; }, of whose map each
  // entry is { string key = 1; Value value = 2; }
  std::string info;
  for (const auto& [name, value] : hyperparameters)
    info += bytes_field(1, bytes_field(1, name) + bytes_field(2, encoded(value)));
  // HParamsPluginData { SessionStartInfo session_start_info = 3; }
  write_hparams(wall_seconds, "_hparams_/session_start_info", bytes_field(3, info + double_field(5, wall_seconds)));
}

void TensorBoardWriter::write_session_end(double wall_seconds) {
  // HParamsPluginData { SessionEndInfo session_end_info = 4; }  SessionEndInfo { Status status = 1; double
  // end_time_secs = 2; }
  constexpr std::uint64_t kSuccess = 1;
  write_hparams(wall_seconds, "_hparams_/session_end_info",
                bytes_field(4, varint_field(1, kSuccess) + double_field(2, wall_seconds)));
}

void TensorBoardWriter::write_hparams(double wall_seconds, const std::string& tag, const std::string& data) {
  // Value { SummaryMetadata metadata = 9; }  SummaryMetadata { PluginData plugin_data = 1; }  PluginData { string
  // plugin_name = 1; bytes content = 2; }
  write_summary(0, wall_seconds,
                tagged_value(tag, bytes_field(9, bytes_field(1, bytes_field(1, "hparams") + bytes_field(2, data)))));
}

// Event { Summary summary = 5; }
void TensorBoardWriter::write_summary(std::int64_t step, double wall_seconds, const std::string& values) {
  write_record(event_start(wall_seconds, step) + bytes_field(5, values));
}

void TensorBoardWriter::write_record(const std::string& data) {
  // TFRecord: length, masked CRC of the length, data, masked CRC of the data.
  const auto masked_crc = [](const std::string& bytes) { return fixed(std::rotr(crc32c(bytes), 15) + 0xA282EAD8u); };
  const std::string length = fixed(static_cast<std::uint64_t>(data.size()));
  file_.append(length + masked_crc(length) + data + masked_crc(data));
}

}  // namespace engram
