// Scalars for TensorBoard. An event file is a sequence of TFRecords, each a serialized protobuf message Event
// (tensorflow/core/util/event.proto), of which the few fields in use are encoded by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace engram {

// One tag and its value.
using Scalar = std::pair<std::string, double>;

class TensorBoardWriter {
 public:
  // Creates `file`, whose name must contain "tfevents" for TensorBoard to see it. Throws UserError if it cannot be
  // written.
  explicit TensorBoardWriter(const std::filesystem::path& file);

  // Appends one event and flushes it. Values are stored as float32.
  void write(std::int64_t step, double wall_seconds, std::span<const Scalar> scalars);

 private:
  void write_record(const std::string& data);

  std::filesystem::path file_;
  std::ofstream stream_;
};

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as TFRecords use it before masking.
std::uint32_t crc32c(std::span<const char> data);

}  // namespace engram
