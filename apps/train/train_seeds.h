// engram train --seeds: runs that differ in their seed, all at once in one program, which fill a GPU that one of them
// leaves idle for much of its time.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "apps/train/train_start.h"

namespace engram {

inline constexpr int kMostSeedsAtOnce = 64;

// Each run is what it would be alone, bit for bit, in the folder DIR/SEED. One that fails leaves the others alone and
// says "seed SEED: " and its failed_line().
// find: the start of a seed's run, of options that name its folder. Returns the exit status; throws UserError, before
// any run begins, for what contradicts itself, and std::runtime_error with a reason when runs have failed.
int train_seeds(const TrainOptions& options, const std::vector<std::string>& arguments,
                const std::function<Start(const TrainOptions&, const std::string& seed)>& find);

}  // namespace engram
