// MetricsLog: what a run measures, as JSON lines (one object a row) and as TensorBoard events.
//
//   metrics.jsonl  what config and seed determine: the same in every run of them, interrupted or not
//   timings.jsonl  what the clock says at the same moments
//
// A row of kind "train" with the value "return" appears in TensorBoard under "train/return".
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>

#include "storage/files.h"
#include "storage/tensorboard.h"

namespace engram {

class StateArchive;

// Lengths of the files, in bytes.
struct MetricPositions {
  std::int64_t metrics = 0, timings = 0, events = 0;

  void visit_state(StateArchive& archive);
};

class MetricsLog {
 public:
  // Creates the files, or goes on at positions in them and cuts off what follows. Errors are those of AppendFile.
  MetricsLog(const std::filesystem::path& metrics, const std::filesystem::path& timings,
             const std::filesystem::path& events, const MetricPositions& positions = {});

  // Appends one row to each file. A value that is not finite becomes null in JSON.
  void write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values,
             std::span<const Scalar> timings);

  // For what TensorBoard alone shows.
  TensorBoardWriter& events() { return events_; }

  // All rows are on the disk when it returns.
  void sync();
  MetricPositions positions() const;

 private:
  AppendFile metrics_, timings_;
  TensorBoardWriter events_;
};

}  // namespace engram
