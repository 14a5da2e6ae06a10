// What makes runs that share a GPU faster, and what makes them wrong (docs/figures/speed.md, "What runs beside each
// other wait for").
#pragma once

#include <optional>
#include <string>

namespace engram {

// From so many runs of a GPU on, a share of its multiprocessors for each is better than all of them.
inline constexpr int kRunsWithShares = 8;

// A line without its end; nothing where nothing is to be gained. `service`: they are under NVIDIA's multi-process
// service; `share`: what it limits each to, in percent, as it was set.
std::string sharing_advice(int runs_of_gpu, bool service, const std::optional<std::string>& share);

}  // namespace engram
