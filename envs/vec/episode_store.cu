#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string>

#include "envs/vec/episode_store.h"
#include "kernels/common/cuda_support.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kMaxGridY = 65'535;
// Episodes of a launch, whose parameters hold 4 KB at once, or 32 that take longer to be sent.
constexpr int kFewEpisodes = 128, kManyEpisodes = 1024;

// blockIdx.y is the episode, the threads of its blocks share its bytes and its rows. Rows have no alignment of their
// own, so that bytes are copied one by one, a warp's side by side.
__global__ void __launch_bounds__(kThreads)
    keep_kernel(EpisodeRecorder recorder, const KeptEpisode* kept_E, EpisodeRows to) {
  const KeptEpisode episode = kept_E[blockIdx.y];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  const std::int64_t bytes = (episode.steps + std::int64_t{1}) * to.row_bytes;
  std::uint8_t* const target = to.observation_at(episode.to);
  for (std::int64_t at = first; at < bytes; at += stride) {
    const std::int64_t t = at / to.row_bytes;
    target[at] = recorder.rows.observation_at(recorded_row(recorder, episode, t))[at - t * to.row_bytes];
  }
  for (std::int64_t t = first; t < episode.steps; t += stride) {
    const std::int64_t from = recorded_row(recorder, episode, t);
    to.put_action(episode.to + t, recorder.rows.action_at(from));
    to.reward[episode.to + t] = recorder.rows.reward[from];
    if (to.log_prob != nullptr) to.log_prob[episode.to + t] = recorder.rows.log_prob[from];
  }
}

// Sixteen bytes from any address, by aligned words: reads less than kReach bytes ahead.
constexpr int kReach = 20;
__device__ uint4 load16(const std::uint8_t* from) {
  const unsigned shift = reinterpret_cast<std::uintptr_t>(from) % 4 * 8;
  const auto* const word = reinterpret_cast<const std::uint32_t*>(from - shift / 8);
  const std::uint32_t last = shift == 0 ? 0 : word[4];
  return make_uint4(__funnelshift_r(word[0], word[1], shift), __funnelshift_r(word[1], word[2], shift),
                    __funnelshift_r(word[2], word[3], shift), __funnelshift_r(word[3], last, shift));
}

// Bytes [begin, end) of the episode's observations, end - begin <= 16; `valid` bytes of it are stored.
__device__ void gather_bytes(const std::uint8_t* from, std::uint8_t* to, std::int64_t begin, std::int64_t end,
                             std::int64_t valid) {
  for (std::int64_t at = begin; at < end; ++at) to[at] = at < valid ? from[at] : 0;
}

// Up to kCount of a batch's episodes; a Batch is an EpisodeGather or an EpisodeAdvantages.
template <class Batch, int kCount>
struct BatchLaunch {
  EpisodeRows rows;
  Batch batch;
  int first;  // of the batch's episodes
  StoredEpisode episodes[kCount];
};

// blockIdx.y is the episode, the threads of its blocks share its bytes and its rows.
template <int kCount>
__global__ void __launch_bounds__(kThreads)
    gather_kernel(const __grid_constant__ BatchLaunch<EpisodeGather, kCount> p) {
  const EpisodeRows& rows = p.rows;
  const EpisodeGather& batch = p.batch;
  const std::int64_t b = p.first + static_cast<int>(blockIdx.y);
  const StoredEpisode& episode = p.episodes[blockIdx.y];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;

  // The observations are one run of bytes; in the batch it is written 16 at a time where that is aligned.
  const std::int64_t bytes = (batch.steps + 1) * rows.row_bytes;
  const std::int64_t valid = (episode.steps + std::int64_t{1}) * rows.row_bytes;
  const std::uint8_t* const from = rows.observation_at(episode.first);
  std::uint8_t* const to = batch.observation + b * bytes;
  const std::int64_t begin = -(b * bytes % 16);  // of the first vector that holds one of the bytes
  for (std::int64_t at = begin + 16 * first; at < bytes; at += 16 * stride) {
    if (at < 0 || at + 16 > bytes || (at < valid && at + kReach > valid))
      gather_bytes(from, to, max(at, std::int64_t{0}), min(at + 16, bytes), valid);
    else
      *reinterpret_cast<uint4*>(to + at) = at < valid ? load16(from + at) : make_uint4(0, 0, 0, 0);
  }
  for (std::int64_t t = first; t <= batch.steps; t += stride) gather_row(rows, batch, episode, b, t);
}

template <int kCount>
__global__ void __launch_bounds__(kThreads)
    advantages_kernel(const __grid_constant__ BatchLaunch<EpisodeAdvantages, kCount> p) {
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;
  for (std::int64_t t = first; t < p.batch.steps; t += stride)
    put_advantage(p.rows, p.batch, p.episodes[blockIdx.y], p.first + static_cast<int>(blockIdx.y), t);
}

dim3 grid_of(std::int64_t items, int episodes, const char* what) {
  if (items < 1 || episodes < 1 || episodes > kMaxGridY)
    throw std::runtime_error(std::string(what) + ": " + std::to_string(episodes) + " episodes of " +
                             std::to_string(items) + " rows; both must be at least 1, and at most " +
                             std::to_string(kMaxGridY) + " episodes");
  return dim3(static_cast<unsigned>(std::min<std::int64_t>((items + kThreads - 1) / kThreads, 1024)), episodes);
}

// In launches of up to kCount episodes, with threads for `items` of each.
template <int kCount, class Batch>
void launch_batch(void (*kernel)(BatchLaunch<Batch, kCount>), const EpisodeRows& rows, const Batch& batch,
                  const StoredEpisode* episode_B, std::int64_t items, const char* what, cudaStream_t stream) {
  BatchLaunch<Batch, kCount> launch{.rows = rows, .batch = batch, .first = 0, .episodes = {}};
  for (; launch.first < batch.size; launch.first += kCount) {
    const int count = std::min(kCount, batch.size - launch.first);
    std::copy_n(episode_B + launch.first, count, launch.episodes);
    kernel<<<grid_of(items, count, what), kThreads, 0, stream>>>(launch);
    check_cuda(cudaGetLastError(), what);
  }
}

}  // namespace

void keep_episodes(const EpisodeRecorder& recorder, const KeptEpisode* kept_E, int count, int longest,
                   const EpisodeRows& to, cudaStream_t stream) {
  const dim3 grid = grid_of((longest + std::int64_t{1}) * to.row_bytes, count, "keeping of episodes");
  keep_kernel<<<grid, kThreads, 0, stream>>>(recorder, kept_E, to);
  check_cuda(cudaGetLastError(), "keeping of episodes");
}

void gather_episodes(const EpisodeRows& rows, const EpisodeGather& batch, const StoredEpisode* episode_B,
                     cudaStream_t stream) {
  if (reinterpret_cast<std::uintptr_t>(batch.observation) % 16 != 0)
    throw std::runtime_error("gather of episodes: the observations are not aligned to 16 bytes");
  const std::int64_t vectors = (batch.steps + 1) * rows.row_bytes / 16 + 2;
  const std::int64_t items = std::max(vectors, batch.steps + 1);
  constexpr const char* kWhat = "gather of episodes";
  if (batch.size <= kFewEpisodes)
    launch_batch<kFewEpisodes>(gather_kernel<kFewEpisodes>, rows, batch, episode_B, items, kWhat, stream);
  else
    launch_batch<kManyEpisodes>(gather_kernel<kManyEpisodes>, rows, batch, episode_B, items, kWhat, stream);
}

void put_advantages(const EpisodeRows& rows, const EpisodeAdvantages& advantages, const StoredEpisode* episode_B,
                    cudaStream_t stream) {
  launch_batch<kManyEpisodes>(advantages_kernel<kManyEpisodes>, rows, advantages, episode_B, advantages.steps,
                              "advantages of episodes", stream);
}

}  // namespace engram
