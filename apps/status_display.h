// StatusDisplay: a training run on the terminal. On a terminal one live line with a bar; otherwise a plain line every
// few seconds.
#pragma once

#include <chrono>
#include <ostream>
#include <string>

#include "agents/trainer.h"

namespace engram {

class StatusDisplay : public TrainObserver {
 public:
  // `live`: `out` is a terminal, on which a line can be overwritten.
  StatusDisplay(std::ostream& out, bool live) : out_(out), live_(live) {}

  void report(const TrainStatus& status) override;
  void evaluated(const TrainStatus& status, const AgentNetwork& network, bool best) override;
  void save(const TrainStatus& status, StateArchive& archive) override;
  void finished(const TrainStatus& status, const AgentNetwork& network) override;

 private:
  void clear();

  std::ostream& out_;
  bool live_;
  std::chrono::steady_clock::time_point last_line_{};
};

// "7s", "12m05s", "3h20m"
std::string duration_text(double seconds);
// "812", "12.3k", "1.46M"
std::string count_text(double count);

}  // namespace engram
