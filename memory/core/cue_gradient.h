// What of a loss's gradient reaches the steps that showed a cue, by the delay since: how well a backbone can begin to
// learn that they matter. Before learning, and of a loss that knows nothing of the cue: a random linear read-out of the
// output at the last step.
#pragma once

#include <torch/torch.h>

#include <cstdint>

#include "memory/core/sequence_model.h"

namespace engram {

struct CueGradient {
  // |dL/dx_cue| / |dL/dx|, norms over the cue's steps and over all steps; mean over rows, 0 .. 1. NaN of a row whose
  // output does not depend on its input at all.
  double share;
  // Root mean squares, over rows, layers and channels, of what fast weights and window give at the last step, before
  // they are mixed; NaN of a backbone without one of them.
  double fast_rms, window_rms;
};

// input_BTD: whole sequences, whose first `cue_steps` (1 .. T) are the cue. The read-out is drawn from torch's default
// generator, N(0, 1) for each row and channel. The model must be in evaluation mode and on the input's device.
CueGradient cue_gradient(SequenceModel& model, const torch::Tensor& input_BTD, std::int64_t cue_steps);

}  // namespace engram
