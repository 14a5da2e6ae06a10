// MetricsLog: what a run measures, as JSON lines (one object a row) and as TensorBoard events.
// A row of kind "train" with the value "return" appears in TensorBoard under "train/return".
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>

#include "agents/tensorboard.h"

namespace engram {

class MetricsLog {
 public:
  // Creates both files. Throws UserError if one cannot be written.
  MetricsLog(const std::filesystem::path& json_lines, const std::filesystem::path& events);

  // Appends one row and flushes it. A value that is not finite becomes null in JSON.
  void write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values);

 private:
  std::filesystem::path json_file_;
  std::ofstream json_lines_;
  TensorBoardWriter events_;
  std::chrono::steady_clock::time_point start_;
};

}  // namespace engram
