#include "apps/train/run_advice.h"

#include <algorithm>
#include <cstddef>
#include <string>

#include "apps/cli/command_line.h"
#include "apps/list/small_configs.h"
#include "base/text/formatted.h"
#include "base/text/words.h"

namespace engram {

// The trainer's own estimate waits until the updates of the random episodes are made, which may take many minutes.
double RunAdvice::seconds_left(const TrainStatus& status) const {
  if (status.seconds_left) return *status.seconds_left;
  const auto total = static_cast<double>(status.total_steps) * config_.updates_per_step();
  const double left = (total - static_cast<double>(status.updates)) *
                      (status.seconds_acting + status.seconds_learning) /
                      static_cast<double>(status.updates - first_updates_);
  return config_.run.max_seconds > 0 ? std::min(left, config_.run.max_seconds - status.seconds) : left;
}

void RunAdvice::report(const TrainStatus& status) {
  if (said_) return;
  if (first_updates_ < 0) first_updates_ = status.updates;
  if (status.updates - first_updates_ < kUpdates || status.seconds_acting + status.seconds_learning < kSeconds) return;
  said_ = true;
  const double left = seconds_left(status);
  const std::string rate = formatted(status.updates_per_second < 9.95 ? "%.1f" : "%.0f", status.updates_per_second);
  if (live_) out_ << "\r\033[K";
  out_ << "At " << rate << " updates/s the rest takes about " << duration_text(left) << ".\n";
  if (!device_.is_cuda() && left > kLongSeconds) {
    constexpr std::size_t kColumns = 79;
    const SmallConfig* const small = small_config(config_.task.name());
    const std::string smaller = small != nullptr
                                    ? "A small agent of this task: --config " + small->file + ". " + small->outcome
                                    : "Lower memory.width or memory.layers, or make the task shorter.";
    out_ << wrapped("That is long: default and published sizes are for a GPU. " + smaller, 0, kColumns) << "\n";
  }
  out_ << std::flush;
}

}  // namespace engram
