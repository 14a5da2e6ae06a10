// What makes runs that share a GPU faster (docs/speed.md, "What runs beside each other wait for").
#pragma once

#include <string>

namespace engram {

// From so many runs of a GPU on, a share of its multiprocessors for each is better than all of them.
inline constexpr int kRunsWithShares = 8;

// A line without its end; nothing where nothing is to be gained. `service`: they are under NVIDIA's multi-process
// service; `shares`: it limits each to a share.
std::string sharing_advice(int runs_of_gpu, bool service, bool shares);

// Of this program's environment: whether the service's control pipe is there, and whether
// CUDA_MPS_ACTIVE_THREAD_PERCENTAGE is set.
bool has_multi_process_service();
bool has_gpu_share();

}  // namespace engram
