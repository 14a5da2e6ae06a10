// RunDirectory: everything that one training run leaves behind.
//
// What a run goes on from: config.ini, a checkpoint and the metrics.jsonl that it counts on. All else it makes again,
// or does without.
//
//   config.ini                  the resolved config, every value
//   about.json                  what built and ran it: version, commit, compiler, LibTorch, device, roads,
//                               what the seed drew for the whole run, ranks, command line, start
//   metrics.jsonl               one JSON object a row, kinds "train", "evaluation" and "final"
//   timings.jsonl               when they were written, and rates
//   events.out.tfevents.engram  the same rows for TensorBoard, with settings, histograms of weights and a film
//   weights/best.safetensors    of the best evaluation
//   weights/last.safetensors    of the last evaluation, or of the end
//   evaluations.json            of the best weights in tasks of other sizes, where they were asked for
//   checkpoints/                whole states of the run, to go on from (checkpoint.h)
//   resumes.jsonl               when, where and with which command line it went on
//   lock                        held while a program writes here (storage/run/run_lock.h)
#pragma once

#include <c10/core/Device.h>

#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/run_fact.h"
#include "base/support.h"
#include "storage/run/run_lock.h"

namespace engram {

enum class WhichWeights { kBest, kLast };

// What a run directory keeps of how its run begins, or goes on.
struct RunStart {
  std::string config_text;  // the resolved config
  c10::Device device;
  std::vector<std::string> command_line;  // the arguments of the program
  std::vector<Road> roads = {};           // what computes each part of the agent
  std::vector<RunFact> facts = {};        // what the seed drew for the whole run
  int ranks = 1;                          // programs that do it together
};

class RunDirectory {
 public:
  // Creates the folder, its config.ini and about.json, and holds its lock for as long as a copy of the object lives.
  // Throws UserError if the folder exists and is not empty, is in use, or cannot be written; then nothing is left
  // behind. Everything inside has a fixed name: no text of a config or a task becomes part of a path.
  static RunDirectory create(const std::filesystem::path& path, const RunStart& start);
  // Whether there is a run, be it finished, running or begun.
  static bool is_run(const std::filesystem::path& path);
  // Opens the directory of a finished or running run for reading. Throws UserError if there is none.
  static RunDirectory open(const std::filesystem::path& path);
  // Opens it for going on: takes the lock and removes what killed processes have left half written. Throws UserError
  // if there is none, or it is in use.
  static RunDirectory open_to_write(const std::filesystem::path& path);

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path config_file() const { return path_ / "config.ini"; }
  std::filesystem::path metrics_file() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path timings_file() const { return path_ / "timings.jsonl"; }
  std::filesystem::path events_file() const { return path_ / "events.out.tfevents.engram"; }
  std::filesystem::path checkpoints_folder() const { return path_ / "checkpoints"; }
  std::filesystem::path weights_file(WhichWeights which) const;

  // The run has saved nothing yet and is begun again.
  void start_over(const RunStart& start) const { write_start(start); }
  // The run goes on from `checkpoint`: rewrites config.ini and adds a line to resumes.jsonl.
  void record_resume(const RunStart& start, const std::filesystem::path& checkpoint) const;
  // Those of about.json; empty where it has none, as before engram kept them.
  std::vector<Road> roads() const;

 private:
  explicit RunDirectory(std::filesystem::path path) : path_(std::move(path)) {}

  void write_start(const RunStart& start) const;

  std::filesystem::path path_;
  std::shared_ptr<RunLock> lock_;  // none in one opened for reading
};

}  // namespace engram
