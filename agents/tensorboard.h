// Scalars for TensorBoard. An event file is a sequence of TFRecords, each a serialized protobuf message Event
// (tensorflow/core/util/event.proto), of which the few fields in use are encoded by hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agents/files.h"

namespace engram {

// One tag and its value.
using Scalar = std::pair<std::string, double>;

class TensorBoardWriter {
 public:
  // Creates `file`, whose name must contain "tfevents" for TensorBoard to see it, or goes on at `position`. Errors are
  // those of AppendFile.
  explicit TensorBoardWriter(const std::filesystem::path& file, std::uint64_t position = 0);

  // Appends one event. Values are stored as float32.
  void write(std::int64_t step, double wall_seconds, std::span<const Scalar> scalars);

  void sync() { file_.sync(); }
  std::uint64_t position() const { return file_.position(); }

 private:
  void write_record(const std::string& data);

  AppendFile file_;
};

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as TFRecords use it before masking.
std::uint32_t crc32c(std::span<const char> data);

}  // namespace engram
