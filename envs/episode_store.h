// Keeping and gathering of recorded episodes on a GPU: the rows' functions of episode_rows.h, one launch for all rows.
// All memory is the device's. All work is queued on `stream`; nothing synchronises; the same input gives the same bits;
// calls may be captured in a CUDA graph. Errors: std::runtime_error for sizes below 1 or a failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include "envs/episode_rows.h"

namespace engram {

// Copies `count` ended episodes, kept_E, from their rings into `to`; all in one launch. longest: steps of the longest.
void keep_episodes(const EpisodeRecorder& recorder, const KeptEpisode* kept_E, int count, int longest,
                   const EpisodeRows& to, cudaStream_t stream);

void gather_episodes(const EpisodeRows& rows, const EpisodeGather& batch, cudaStream_t stream);

}  // namespace engram
