// RunShare: what one of several ranks has of a run: a block of its environments, and an even part of its replay and of
// every batch. A rank alone has all of it.
#pragma once

#include <cstdint>

#include "agents/run/config/config.h"
#include "ranks/ranks.h"

namespace engram {

struct RunShare {
  Block environments;
  ReplayOptions replay;
};

// Throws UserError where there are more ranks than environments or episodes of a batch.
RunShare share_of(const Config& config, const Ranks& ranks);

// The part of an evaluation's episodes that one rank plays: the quotas of its environments (play_episodes()). Other
// ranks play the rest of the same episodes.
struct EvaluationShare {
  Block environments;
  int episodes;
};
EvaluationShare evaluation_share(int episodes, int rank, int size);

}  // namespace engram
