// StatusDisplay: a training run, to be watched. On a terminal one live line, otherwise a plain line every few seconds.
#pragma once

#include <chrono>
#include <ostream>
#include <string>
#include <utility>

#include "agents/run/training/train_observer.h"
#include "apps/cli/terminal.h"

namespace engram {

class StatusDisplay : public TrainObserver {
 public:
  // `width`: of the terminal that `out` writes to.
  StatusDisplay(std::ostream& out, TerminalWidth width) : line_(out, std::move(width)) {}

  void report(const TrainStatus& status) override;
  void evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) override;
  void save(const TrainStatus& status, StateArchive& archive) override;
  void finished(const TrainStatus& status, const AgentNetwork& network) override;
  // A line that stays, above the live line.
  void say(const std::string& text) { line_.say(text); }

 private:
  LiveLine line_;
  std::chrono::steady_clock::time_point last_line_{};
};

// "812", "12.3k", "1.46M"
std::string count_text(double count);

}  // namespace engram
