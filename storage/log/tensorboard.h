// Scalars, histograms, pictures and hyperparameters for TensorBoard. An event file is a sequence of TFRecords, each a
// serialized protobuf message Event (tensorflow/core/util/event.proto), of which the few fields in use are encoded by
// hand.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "storage/files.h"

namespace engram {

// One tag and its value.
using Scalar = std::pair<std::string, double>;

// How many numbers lie in each of a row of buckets.
struct Histogram {
  double min = 0, max = 0, count = 0, sum = 0, sum_of_squares = 0;
  std::vector<double> limits;  // upper ends of the buckets, rising; the last is max
  std::vector<double> counts;  // one a bucket
};

// A setting of a run, for TensorBoard's page of hyperparameters.
using Hyperparameter = std::pair<std::string, std::variant<bool, double, std::string>>;

// Seconds since 1970.
double wall_clock();

class TensorBoardWriter {
 public:
  // Creates `file`, whose name must contain "tfevents" for TensorBoard to see it, or goes on at `position`. Errors are
  // those of AppendFile.
  explicit TensorBoardWriter(const std::filesystem::path& file, std::uint64_t position = 0);

  // Appends one event. Values are stored as float32.
  void write(std::int64_t step, double wall_seconds, std::span<const Scalar> scalars);
  void write_histograms(std::int64_t step, double wall_seconds,
                        std::span<const std::pair<std::string, Histogram>> histograms);
  // `encoded`: the bytes of a GIF (animated ones play), PNG or JPEG of that size in pixels.
  void write_image(std::int64_t step, double wall_seconds, const std::string& tag, int width, int height,
                   const std::string& encoded);
  // A run's hyperparameters, once, before its scalars; and that it ended well.
  void write_session_start(double wall_seconds, std::span<const Hyperparameter> hyperparameters);
  void write_session_end(double wall_seconds);

  void sync() { file_.sync(); }
  std::uint64_t position() const { return file_.position(); }

 private:
  void write_summary(std::int64_t step, double wall_seconds, const std::string& values);
  void write_hparams(double wall_seconds, const std::string& tag, const std::string& data);
  void write_record(const std::string& data);

  AppendFile file_;
};

// CRC-32C (Castagnoli, reflected polynomial 0x82F63B78), as TFRecords use it before masking.
std::uint32_t crc32c(std::span<const char> data);

}  // namespace engram
