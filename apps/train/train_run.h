// One run of engram train, from where it starts to its end.
#pragma once

#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "agents/run/training/trainer.h"
#include "apps/cli/terminal.h"
#include "apps/train/train_start.h"
#include "ranks/ranks.h"
#include "storage/run/run_directory.h"

namespace engram {

struct TrainCall {
  std::string directory;               // of a new run
  std::vector<std::string> arguments;  // of the command
  std::shared_ptr<Ranks> ranks;
  std::ostream& out;    // for people
  TerminalWidth width;  // of the terminal that `out` writes to
  // How many runs this program does at once, each in a thread of its own, and the caller has their StopSignals; none:
  // this is its only one.
  std::optional<int> at_once = {};
};

// `run`: set as soon as there is one.
TrainStatus train(Start& start, const TrainCall& call, std::optional<RunDirectory>& run);

// Throws UserError where so many runs of one program cannot fit into the device's memory, or there is no such device.
void check_runs_fit(const Config& config, int at_once);

// A rank that is not the first: it leaves nothing behind and says nothing.
TrainStatus train_along(Start& start, const std::shared_ptr<Ranks>& ranks);

// Follows a message about a run that failed; the folder itself may be what failed.
std::string how_to_go_on(const std::optional<RunDirectory>& run);

}  // namespace engram
