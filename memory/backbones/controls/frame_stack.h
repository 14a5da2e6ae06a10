// Frame stacking, the options.
#pragma once

#include <cstdint>
#include <memory>

#include "memory/core/backbone_options.h"

namespace engram {

// The output at t is a linear map of the inputs at t - frames + 1 .. t, with relu; before an episode's first step they
// count as zero. The control for how far a short buffer goes (Mnih et al. 2015 stack 4 frames).
struct FrameStackOptions {
  static constexpr const char* kName = "frame_stack";
  static constexpr const char* kSummary = "the last few inputs: a control";
  static constexpr const char* kSource =
      "Mnih et al., Human-level control through deep reinforcement learning, 2015, whose agent sees the last 4 frames";
  int width = 100;
  int frames = 4;  // inputs, the current one included

  void list_options(OptionList& list);
  void check() const;
  std::shared_ptr<SequenceModel> make(std::int64_t max_steps) const;
};

}  // namespace engram
