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
#include <vector>

#include "storage/files.h"
#include "storage/log/tensorboard.h"

namespace engram {

class StateArchive;

// Lengths of the files, in bytes.
struct MetricPositions {
  std::int64_t metrics = 0, timings = 0, events = 0;

  void visit_state(StateArchive& archive);
};

// Why a run cannot go on from a state in which metrics.jsonl has that many bytes, in one line; empty where it can. Its
// rows are what the run has measured, which nothing makes again.
std::string lost_metrics(const std::filesystem::path& metrics, std::int64_t bytes);

class MetricsLog {
 public:
  // Creates the files, or goes on at positions in them and cuts off what follows. Throws UserError for lost_metrics();
  // the other two files are not needed: rows of times that are lost stay lost, and events are made again from what rows
  // there are. Other errors are those of AppendFile.
  MetricsLog(const std::filesystem::path& metrics, const std::filesystem::path& timings,
             const std::filesystem::path& events, const MetricPositions& positions = {});

  // Appends one row to each file. A value that is not finite becomes null in JSON.
  void write(const std::string& kind, std::int64_t environment_steps, std::span<const Scalar> values,
             std::span<const Scalar> timings);

  // For what TensorBoard alone shows.
  TensorBoardWriter& events() { return events_; }
  // Whether the file of the events was begun here: it lacks what stands before its rows.
  bool began_events() const { return began_events_; }
  // What was lost and what became of it, a line each.
  const std::vector<std::string>& repairs() const { return repairs_; }

  // All rows are on the disk when it returns.
  void sync();
  MetricPositions positions() const;

 private:
  void remake_events(const std::filesystem::path& rows);

  bool began_events_;
  AppendFile metrics_, timings_;
  TensorBoardWriter events_;
  std::vector<std::string> repairs_;
};

}  // namespace engram
