// RunAdvice: says once, as soon as some updates are timed, how long a run will take, and what to do where that is very
// long because its size is meant for a GPU.
#pragma once

#include <c10/core/Device.h>

#include <cstdint>
#include <ostream>
#include <string>

#include "agents/run/config/config.h"
#include "agents/run/training/train_observer.h"

namespace engram {

class RunAdvice : public TrainObserver {
 public:
  // `live`: `out` is a terminal, whose last line may be one that is overwritten.
  RunAdvice(std::ostream& out, bool live, c10::Device device, const Config& config)
      : out_(out), live_(live), device_(device), config_(config) {}

  // At the first report that has kUpdates updates and kSeconds of acting and learning behind it since the run began or
  // went on.
  void report(const TrainStatus& status) override;

  static constexpr std::int64_t kUpdates = 3;
  static constexpr double kSeconds = 5;
  static constexpr double kLongSeconds = 1800;  // a run on a CPU that gets advice

 private:
  double seconds_left(const TrainStatus& status) const;

  std::ostream& out_;
  const bool live_;
  const c10::Device device_;
  const Config config_;
  std::int64_t first_updates_ = -1;  // at the first report; -1: there was none
  bool said_ = false;
};

}  // namespace engram
