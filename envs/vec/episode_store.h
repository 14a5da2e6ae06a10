// Keeping and gathering of recorded episodes on a GPU: the rows' functions of episode_rows.h, one launch for many rows.
// Memory is the device's where nothing else is said. All work is queued on `stream`; nothing synchronises; the same
// input gives the same bits; calls may be captured in a CUDA graph. Errors: std::runtime_error for sizes below 1 or a
// failed launch.
#pragma once

#include <cuda_runtime_api.h>

#include "envs/vec/episode_rows.h"

namespace engram {

// Copies `count` ended episodes, kept_E, from their rings into `to`; all in one launch. longest: steps of the longest.
void keep_episodes(const EpisodeRecorder& recorder, const KeptEpisode* kept_E, int count, int longest,
                   const EpisodeRows& to, cudaStream_t stream);

// episode_B is the host's, and has been read when this returns: the launches hold it, a copy to the device would keep
// every update waiting.
void gather_episodes(const EpisodeRows& rows, const EpisodeGather& batch, const StoredEpisode* episode_B,
                     cudaStream_t stream);

// Of episodes of `rows`, which have columns for it; as gather_episodes().
void put_advantages(const EpisodeRows& rows, const EpisodeAdvantages& advantages, const StoredEpisode* episode_B,
                    cudaStream_t stream);

}  // namespace engram
