#include <algorithm>
#include <stdexcept>
#include <string>

#include "kernels/early_launch.h"
#include "kernels/episode_store/episode_store.h"

namespace engram {
namespace {

constexpr int kThreads = 256;
constexpr int kWarp = 32;
constexpr int kWarps = kThreads / kWarp;

// ---- Recording: one warp for each environment ----

// An observation has no alignment of its own, so that it is copied byte by byte; a warp's bytes lie side by side.
__device__ void copy_observation(const EpisodeStore& store, const void* observation_N, std::int64_t environment,
                                 std::int64_t slot, std::int64_t row) {
  const auto* const from = static_cast<const std::uint8_t*>(observation_N) + environment * store.row_bytes;
  std::uint8_t* const to = store.observation + (slot * (store.max_steps + 1) + row) * store.row_bytes;
#pragma unroll 4
  for (std::int64_t at = threadIdx.x % kWarp; at < store.row_bytes; at += kWarp) to[at] = from[at];
}

__device__ std::int64_t environment_of_warp() {
  return static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / kWarp;
}

__global__ void __launch_bounds__(kThreads)
    begin_kernel(EpisodeStore store, EpisodeRecorders recorders, const void* observation_N) {
  wait_for_previous_kernel();
  const std::int64_t i = environment_of_warp();
  if (i >= recorders.size) return;
  const std::int64_t slot = recorders.slot_N[i];
  copy_observation(store, observation_N, i, slot, 0);
  if (threadIdx.x % kWarp != 0) return;
  store.steps_S[slot] = 0;
  store.terminated_S[slot] = 0;
  store.success_S[slot] = 0;
  recorders.running_N[i] = 1;
}

__global__ void __launch_bounds__(kThreads)
    record_kernel(EpisodeStore store, EpisodeRecorders recorders, EpisodeStep step) {
  wait_for_previous_kernel();
  const std::int64_t i = environment_of_warp();
  if (i >= recorders.size) return;
  // Read together, whether they are needed or not, so that one load's latency hides the others'.
  const bool running = recorders.running_N[i] != 0;
  const std::int64_t slot = recorders.slot_N[i];
  const std::int32_t action = step.action_N[i];
  const float reward = step.reward_N[i];
  const std::uint8_t end = step.end_N[i], success = step.success_N[i];
  const std::int64_t t = store.steps_S[slot];
  if (!running || t >= store.max_steps) return;
  copy_observation(store, step.observation_N, i, slot, t + 1);
  __syncwarp();  // every lane has read what the first one changes now
  if (threadIdx.x % kWarp != 0) return;
  store.action_SM[slot * store.max_steps + t] = action;
  store.reward_SM[slot * store.max_steps + t] = reward;
  store.steps_S[slot] = static_cast<std::int32_t>(t + 1);
  if (end == 0) return;
  store.terminated_S[slot] = end == 1;
  store.success_S[slot] = success;
  recorders.running_N[i] = 0;
}

// ---- Gathering: blockIdx.y is the episode, the threads of its blocks share its bytes and its rows ----

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

__global__ void __launch_bounds__(kThreads) gather_kernel(EpisodeStore store, EpisodeGather batch) {
  const std::int64_t b = blockIdx.y, slot = batch.slot_B[b];
  const std::int64_t steps = store.steps_S[slot];
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * kThreads + threadIdx.x;
  const std::int64_t stride = static_cast<std::int64_t>(gridDim.x) * kThreads;

  // The observations are one run of bytes; in the batch it is written 16 at a time where that is aligned.
  const std::int64_t bytes = (store.max_steps + 1) * store.row_bytes, valid = (steps + 1) * store.row_bytes;
  const std::uint8_t* const from = store.observation + slot * bytes;
  std::uint8_t* const to = static_cast<std::uint8_t*>(batch.observation) + b * bytes;
  const std::int64_t begin = -(b * bytes % 16);  // of the first vector that holds one of the bytes
  for (std::int64_t at = begin + 16 * first; at < bytes; at += 16 * stride) {
    if (at < 0 || at + 16 > bytes || (at < valid && at + kReach > valid))
      gather_bytes(from, to, max(at, std::int64_t{0}), min(at + 16, bytes), valid);
    else
      *reinterpret_cast<uint4*>(to + at) = at < valid ? load16(from + at) : make_uint4(0, 0, 0, 0);
  }

  const std::int64_t max_steps = store.max_steps;
  const std::int32_t* const action = store.action_SM + slot * max_steps;
  const float* const reward = store.reward_SM + slot * max_steps;
  for (std::int64_t t = first; t <= max_steps; t += stride) {
    const bool has_previous = t > 0 && t <= steps;
    batch.previous_action_BT1[b * (max_steps + 1) + t] = has_previous ? action[t - 1] : batch.num_actions;
    batch.previous_reward_BT1[b * (max_steps + 1) + t] = has_previous ? reward[t - 1] : 0.0f;
    if (t == max_steps) break;
    const std::int64_t at = b * max_steps + t;
    batch.action_BT[at] = t < steps ? action[t] : 0;
    batch.reward_BT[at] = t < steps ? reward[t] : 0.0f;
    batch.mask_BT[at] = t < steps ? 1.0f : 0.0f;
    batch.terminated_BT[at] = t == steps - 1 && store.terminated_S[slot] != 0 ? 1.0f : 0.0f;
  }
  if (first == 0) batch.steps_B[b] = steps;
}

void check_sizes(const EpisodeStore& store, int rows, const char* what) {
  if (store.slots < 1 || store.max_steps < 1 || store.row_bytes < 1 || rows < 1)
    throw std::runtime_error(std::string(what) + ": " + std::to_string(store.slots) + " slots of " +
                             std::to_string(store.max_steps) + " steps and " + std::to_string(store.row_bytes) +
                             " bytes a row, " + std::to_string(rows) + " rows; each must be at least 1");
}

int blocks_of(int environments) { return (environments + kWarps - 1) / kWarps; }

}  // namespace

void begin_episodes(const EpisodeStore& store, const EpisodeRecorders& recorders, const void* observation_N,
                    cudaStream_t stream) {
  check_sizes(store, recorders.size, "begin of episodes");
  launch_early<begin_kernel>(blocks_of(recorders.size), kThreads, 0, stream, "begin of episodes", store, recorders,
                             observation_N);
}

void record_step(const EpisodeStore& store, const EpisodeRecorders& recorders, const EpisodeStep& step,
                 cudaStream_t stream) {
  check_sizes(store, recorders.size, "record of a step");
  launch_early<record_kernel>(blocks_of(recorders.size), kThreads, 0, stream, "record of a step", store, recorders,
                              step);
}

void gather_episodes(const EpisodeStore& store, const EpisodeGather& batch, cudaStream_t stream) {
  check_sizes(store, batch.size, "gather of episodes");
  if (reinterpret_cast<std::uintptr_t>(batch.observation) % 16 != 0)
    throw std::runtime_error("gather of episodes: the observations are not aligned to 16 bytes");
  constexpr int kMaxBatch = 65'535;  // of a grid's y
  if (batch.size > kMaxBatch)
    throw std::runtime_error("gather of episodes: a batch of " + std::to_string(batch.size) + "; at most " +
                             std::to_string(kMaxBatch));
  const std::int64_t vectors = (store.max_steps + 1) * store.row_bytes / 16 + 2;
  const std::int64_t blocks = (std::max(vectors, store.max_steps + 1) + kThreads - 1) / kThreads;
  const dim3 grid(static_cast<unsigned>(std::min<std::int64_t>(blocks, 1024)), batch.size);
  gather_kernel<<<grid, kThreads, 0, stream>>>(store, batch);
  check_cuda(cudaGetLastError(), "gather of episodes");
}

}  // namespace engram
