// CudaVecEnv of any task: kernels over the rules that the CPU runs.
#pragma once

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <type_traits>

#include "envs/vec/cuda_vec_env.h"
#include "kernels/common/cuda_support.h"
#include "kernels/common/early_launch.h"

namespace engram {
namespace cuda_env {

constexpr int kTile = 128;         // threads of a block, and environments where shared memory has room for as many
constexpr int kLeastTile = 16;     // environments: copies of fewer would not be aligned
constexpr int kRecordedTile = 32;  // environments of a block that records them: the other threads help to copy
constexpr int kWarp = 32;
constexpr std::size_t kReservedBytes = 2048;  // of a block's shared memory: for what a kernel declares itself
constexpr unsigned long long kNoBadAction = ~0ull;

// What all environments share.
template <class Task>
struct alignas(16) Rules {
  typename Task::Params params;
  std::uint64_t seed;
  Purpose purpose;
  std::uint32_t first_environment;  // of the streams
};

// The environments, one element for each.
template <class Task>
struct Rows {
  std::int64_t size;
  int tile;      // environments of a block
  int elements;  // of one observation
  const Rules<Task>* rules;
  typename Task::State* states;
  Rng* rngs;
  std::uint32_t* episodes;
  float* rewards;
  End* ends;
  std::uint8_t* successes;
  typename Task::Element* observations;
};

// ---- What happens to environment i, if it is concerned at all. kRare: mostly none is. ----

template <class Task>
using StateOf = typename Task::State;

template <class Task>
__device__ void reset_row(const Rules<Task>& rules, const Rows<Task>& rows, StateOf<Task>& state, std::int64_t i,
                          std::uint32_t episode) {
  Rng rng(rules.seed, rules.purpose, rules.first_environment + static_cast<std::uint32_t>(i), episode);
  state = Task::reset(rules.params, rng);
  rows.episodes[i] = episode;
  rows.rngs[i] = rng;
  rows.rewards[i] = 0;
  rows.ends[i] = End::kNone;
  rows.successes[i] = Task::success(rules.params, state);
}

template <class Task>
struct ResetAll {
  static constexpr bool kRare = false;
  std::uint32_t episode;

  __device__ static bool concerns(const Rows<Task>&, std::int64_t) { return true; }
  __device__ void operator()(const Rules<Task>& rules, const Rows<Task>& rows, StateOf<Task>& state,
                             std::int64_t i) const {
    reset_row(rules, rows, state, i, episode);
  }
};

// Those that are chosen; without chosen_N those whose episode has ended.
template <class Task>
struct StartNext {
  static constexpr bool kRare = true;
  const std::uint8_t* chosen_N;

  __device__ bool concerns(const Rows<Task>& rows, std::int64_t i) const {
    return chosen_N == nullptr ? rows.ends[i] != End::kNone : chosen_N[i] != 0;
  }
  __device__ void operator()(const Rules<Task>& rules, const Rows<Task>& rows, StateOf<Task>& state,
                             std::int64_t i) const {
    reset_row(rules, rows, state, i, rows.episodes[i] + 1);
  }
};

template <class Task>
struct Step {
  static constexpr bool kRare = false;
  const std::int32_t* action_N;
  unsigned long long* bad_action;  // environment << 32 | first word of the action, of the first out of range

  __device__ const std::int32_t* row(std::int64_t i) const { return action_N + i * action_words<Task>(); }
  __device__ static bool concerns(const Rows<Task>& rows, std::int64_t i) { return rows.ends[i] == End::kNone; }
  // False for an action out of range, which changes nothing.
  __device__ bool operator()(const Rules<Task>& rules, const Rows<Task>& rows, StateOf<Task>& state,
                             std::int64_t i) const {
    const std::int32_t* const action = row(i);
    if (!is_action<Task>(num_actions<Task>(rules.params), action)) {
      atomicMin(bad_action, static_cast<unsigned long long>(i) << 32 | static_cast<std::uint32_t>(*action));
      return false;
    }
    const Outcome outcome = step_with_row<Task>(rules.params, state, action, rows.rngs[i]);
    rows.rewards[i] = outcome.reward;
    rows.ends[i] = outcome.end;
    rows.successes[i] = Task::success(rules.params, state);
    return true;
  }
};

// ---- The kernel: one thread for each environment, one block for each tile of them ----

// Copies between shared and global memory, both aligned to 16 bytes.
__device__ inline void copy_by_block(const void* from, void* to, int bytes) {
  const int vectors = bytes / 16;
#pragma unroll 4
  for (int at = threadIdx.x; at < vectors; at += kTile)
    static_cast<uint4*>(to)[at] = static_cast<const uint4*>(from)[at];
  for (int at = vectors * 16 + threadIdx.x; at < bytes; at += kTile)
    static_cast<std::uint8_t*>(to)[at] = static_cast<const std::uint8_t*>(from)[at];
}

// The tile's states in shared memory, where rules may index their arrays at run time (in registers they could not, and
// would go to the stack). A state's units are as wide as its alignment; where their number is even, each state gets one
// more, so that threads meet in few banks.
template <class State>
struct StateTile {
  using Unit = std::conditional_t<alignof(State) % 8 == 0, std::uint64_t,
                                  std::conditional_t<alignof(State) % 4 == 0, std::uint32_t, std::uint8_t>>;
  static constexpr int kUnits = sizeof(State) / sizeof(Unit);
  static constexpr int kStride = kUnits | 1;
  static constexpr int kBytes = kTile * kStride * static_cast<int>(sizeof(Unit));

  Unit* shared;

  __device__ State& mine() const { return *reinterpret_cast<State*>(shared + threadIdx.x * kStride); }
  __device__ void load(const State* states, int count) const {
    if constexpr (kStride == kUnits) return copy_by_block(states, shared, count * static_cast<int>(sizeof(State)));
    const auto* const from = reinterpret_cast<const Unit*>(states);
#pragma unroll 4
    for (int at = threadIdx.x; at < count * kUnits; at += kTile) shared[at / kUnits * kStride + at % kUnits] = from[at];
  }
  __device__ void store(State* states, int count) const {
    if constexpr (kStride == kUnits) return copy_by_block(shared, states, count * static_cast<int>(sizeof(State)));
    auto* const to = reinterpret_cast<Unit*>(states);
#pragma unroll 4
    for (int at = threadIdx.x; at < count * kUnits; at += kTile) to[at] = shared[at / kUnits * kStride + at % kUnits];
  }
};

// As many blocks as shared memory has room for; fewer registers for more blocks would spill.
template <class Task>
constexpr int kBlocksPerMultiprocessor = StateTile<StateOf<Task>>::kBytes > 8192 ? 8 : 12;

// Shared memory: the rules, the tile's observations as they lie in global memory, the tile's states. Threads work on
// their own byte by byte; global memory is read and written by the block as a whole, in order.
template <class Task>
std::size_t shared_bytes(int tile, std::int64_t observation_bytes) {
  return sizeof(Rules<Task>) + tile * static_cast<std::size_t>(observation_bytes) + StateTile<StateOf<Task>>::kBytes;
}

// The most environments of a block that have room. Throws std::runtime_error if not even kLeastTile have.
template <class Task>
int tile_of(std::int64_t observation_bytes) {
  int device = 0, most_bytes = 0;
  check_cuda(cudaGetDevice(&device), "environments: shared memory");
  check_cuda(cudaDeviceGetAttribute(&most_bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device),
             "environments: shared memory");
  for (int tile = kTile; tile >= kLeastTile; tile /= 2)
    if (shared_bytes<Task>(tile, observation_bytes) <= static_cast<std::size_t>(most_bytes) - kReservedBytes)
      return tile;
  throw std::runtime_error("environments: observations of " + std::to_string(observation_bytes) +
                           " bytes do not fit the GPU's shared memory");
}

template <class Task>
struct TileMemory {
  using Element = typename Task::Element;
  using Tile = StateTile<StateOf<Task>>;
  static constexpr int kRuleVectors = sizeof(Rules<Task>) / 16;

  uint4* shared;
  uint4* observations;
  Tile states;

  __device__ TileMemory(uint4* memory, const Rows<Task>& rows)
      : shared(memory),
        observations(memory + kRuleVectors),
        states{reinterpret_cast<typename Tile::Unit*>(observations + rows.tile * rows.elements *
                                                                         static_cast<int>(sizeof(Element)) / 16)} {}

  __device__ const Rules<Task>& rules() const { return *reinterpret_cast<const Rules<Task>*>(shared); }
  __device__ StateOf<Task>& state() const { return states.mine(); }
  // Of this thread.
  __device__ Element* observation(const Rows<Task>& rows) const {
    return reinterpret_cast<Element*>(observations) + static_cast<int>(threadIdx.x) * rows.elements;
  }

  __device__ void load(const Rows<Task>& rows, std::int64_t first, int count) const {
    for (int at = threadIdx.x; at < kRuleVectors; at += kTile)
      shared[at] = reinterpret_cast<const uint4*>(rows.rules)[at];
    states.load(rows.states + first, count);
    __syncthreads();
  }
  __device__ void store(const Rows<Task>& rows, std::int64_t first, int count) const {
    states.store(rows.states + first, count);
    copy_by_block(observations, rows.observations + first * rows.elements,
                  count * rows.elements * static_cast<int>(sizeof(Element)));
  }
};

template <class Task, class Advance>
__global__ void __launch_bounds__(kTile, kBlocksPerMultiprocessor<Task>)
    advance_kernel(Rows<Task> rows, Advance advance) {
  extern __shared__ uint4 shared[];
  wait_for_previous_kernel();
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * rows.tile;
  const std::int64_t i = first + threadIdx.x;
  const auto count = static_cast<int>(min(std::int64_t{rows.tile}, rows.size - first));
  const bool mine = static_cast<int>(threadIdx.x) < count;
  const bool concerned = mine && advance.concerns(rows, i);
  if (Advance::kRare && !__syncthreads_or(concerned)) return;

  const TileMemory<Task> tile(shared, rows);
  tile.load(rows, first, count);
  if (concerned) advance(tile.rules(), rows, tile.state(), i);
  // Also those that are not concerned: the tile is written as a whole, and observing again gives the same bytes.
  if (mine) Task::observe(tile.rules().params, tile.state(), tile.observation(rows));
  __syncthreads();
  tile.store(rows, first, count);
}

// ---- The same with recording: what happens in one step of a rollout ----

// The block copies its threads' observations to their places; null: none.
__device__ inline void copy_rows(const std::uint8_t* observations, int row_bytes, int count, std::uint8_t* own_place) {
  __shared__ std::uint8_t* place[kTile];
  place[threadIdx.x] = own_place;
  __syncthreads();
  const int warp = threadIdx.x / kWarp, lane = threadIdx.x % kWarp;
  for (int i = warp; i < count; i += kTile / kWarp)
    if (std::uint8_t* const to = place[i])
      for (int at = lane; at < row_bytes; at += kWarp) to[at] = observations[i * row_bytes + at];
  __syncthreads();
}

// Restart: every environment begins episode number_N[i].
template <class Task>
struct Restart {
  const std::uint32_t* number_N;

  __device__ bool concerns(const Rows<Task>&, std::int64_t) const { return false; }
  __device__ bool restarts(const Rows<Task>&, std::int64_t) const { return true; }
  __device__ std::uint32_t number(const Rows<Task>&, std::int64_t i) const { return number_N[i]; }
};
// Play: a step of every environment that is given an action; those whose episode it ends begin the next one.
template <class Task>
struct Play {
  static constexpr bool kSteps = true;
  Step<Task> step;
  const float* probabilities_NA;
  int policy_numbers;  // A, or what stands for it: ActionSpec::policy_numbers()

  __device__ bool concerns(const Rows<Task>&, std::int64_t i) const { return *step.row(i) != kNoAction; }
  __device__ bool restarts(const Rows<Task>& rows, std::int64_t i) const { return rows.ends[i] != End::kNone; }
  __device__ std::uint32_t number(const Rows<Task>& rows, std::int64_t i) const { return rows.episodes[i] + 1; }
};

template <class Task, class Move>
__global__ void __launch_bounds__(kTile, kBlocksPerMultiprocessor<Task>)
    recorded_kernel(Rows<Task> rows, Move move, EpisodeRecorder recorder, std::uint8_t* fresh_N) {
  extern __shared__ uint4 shared[];
  wait_for_previous_kernel();
  const int own = min(kRecordedTile, rows.tile);
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * own;
  const std::int64_t i = first + threadIdx.x;
  const auto count = static_cast<int>(min(std::int64_t{own}, rows.size - first));
  const bool mine = static_cast<int>(threadIdx.x) < count;
  const TileMemory<Task> tile(shared, rows);
  tile.load(rows, first, count);
  const auto observe = [&] { Task::observe(tile.rules().params, tile.state(), tile.observation(rows)); };
  const auto* const observations = reinterpret_cast<const std::uint8_t*>(tile.observations);
  const int row_bytes = rows.elements * static_cast<int>(sizeof(typename Task::Element));

  const auto index = static_cast<int>(i);
  bool stepped = mine && move.concerns(rows, i);
  if constexpr (requires { Move::kSteps; }) {
    if (stepped) stepped = move.step(tile.rules(), rows, tile.state(), i);
    std::uint8_t* place = nullptr;
    if (stepped) {
      const std::int32_t* const action = move.step.row(i);
      const float* const probabilities =
          move.probabilities_NA == nullptr ? nullptr : move.probabilities_NA + i * move.policy_numbers;
      place = recorder.rows.observation_at(
          record_step(recorder, index, action, log_probability(recorder.rows, probabilities, action), rows.rewards[i],
                      rows.ends[i], rows.successes[i] != 0, rows.episodes[i]));
    }
    if (mine) observe();
    copy_rows(observations, row_bytes, count, place);
  }

  const bool restarts = mine && move.restarts(rows, i);
  if (__syncthreads_or(restarts)) {
    std::uint8_t* place = nullptr;
    if (restarts) {
      reset_row(tile.rules(), rows, tile.state(), i, move.number(rows, i));
      place = recorder.rows.observation_at(begin_episode(recorder, index));
      fresh_N[i] = 1;
      observe();
    }
    copy_rows(observations, row_bytes, count, place);
  }
  tile.store(rows, first, count);
}

template <GridTask Task>
class CudaVecEnvOf final : public CudaVecEnv {
 public:
  using State = typename Task::State;
  using Element = typename Task::Element;

  // The options must be valid.
  CudaVecEnvOf(const typename Task::Options& options, std::uint64_t seed, Purpose purpose, int num_envs,
               std::uint32_t first_environment)
      : info_(task_info<Task>(options)),
        size_(num_envs),
        tile_(tile_of<Task>(info_.observation.bytes())),
        shared_bytes_(shared_bytes<Task>(tile_, info_.observation.bytes())),
        rules_(1),
        states_(num_envs),
        rngs_(num_envs),
        episodes_(num_envs),
        observations_(num_envs * static_cast<std::size_t>(info_.observation.elements())),
        rewards_(num_envs),
        ends_(num_envs),
        successes_(num_envs),
        bad_action_(1) {
    allow_shared_memory<advance_kernel<Task, ResetAll<Task>>, advance_kernel<Task, StartNext<Task>>,
                        advance_kernel<Task, Step<Task>>, recorded_kernel<Task, Restart<Task>>,
                        recorded_kernel<Task, Play<Task>>>();
    Rules<Task> rules{};
    rules.params = Task::make_params(options, seed, purpose);
    rules.seed = seed;
    rules.purpose = purpose;
    rules.first_environment = first_environment;
    copy_to_device(rules_, &rules);
    copy_to_device(bad_action_, &kNoBadAction);
    // A tile is read before it is written, even by the first reset.
    check_cuda(cudaMemset(states_.data(), 0, states_.size() * sizeof(State)), "environments: first reset");
    reset_all(0, nullptr);
    check_cuda(cudaStreamSynchronize(nullptr), "environments: first reset");
  }

  const TaskInfo& info() const override { return info_; }
  int size() const override { return size_; }

  void reset_all(std::uint32_t first_episode, cudaStream_t stream) override {
    launch(ResetAll<Task>{first_episode}, stream, "environments: reset");
  }
  void move_streams(std::uint32_t first_environment, cudaStream_t stream) override {
    check_cuda(cudaMemcpyAsync(&rules_.data()->first_environment, &first_environment, sizeof(first_environment),
                               cudaMemcpyHostToDevice, stream),
               "environments: streams");
    reset_all(0, stream);
  }
  void step(const std::int32_t* action_N, cudaStream_t stream) override {
    launch(Step<Task>{action_N, bad_action_.data()}, stream, "environments: step");
  }
  void reset_finished(cudaStream_t stream) override {
    launch(StartNext<Task>{nullptr}, stream, "environments: reset of the finished");
  }
  void reset_chosen(const std::uint8_t* chosen_N, cudaStream_t stream) override {
    launch(StartNext<Task>{chosen_N}, stream, "environments: reset of the chosen");
  }
  void restart(const std::uint32_t* number_N, const EpisodeRecorder& recorder, std::uint8_t* fresh_N,
               cudaStream_t stream) override {
    launch_recorded(Restart<Task>{number_N}, recorder, fresh_N, stream, "environments: restart");
  }
  void play(const std::int32_t* action_N, const float* probabilities_NA, const EpisodeRecorder& recorder,
            std::uint8_t* fresh_N, cudaStream_t stream) override {
    launch_recorded(Play<Task>{{action_N, bad_action_.data()}, probabilities_NA, info_.action.policy_numbers()},
                    recorder, fresh_N, stream, "environments: play");
  }

  std::int64_t step_bytes() const override {
    return 2 * sizeof(State) + info_.action.words() * sizeof(std::int32_t) + sizeof(float) + 2 * sizeof(End) +
           sizeof(std::uint8_t) + info_.observation.bytes();
  }

  const void* observation_N() const override { return observations_.data(); }
  const float* reward_N() const override { return rewards_.data(); }
  const End* end_N() const override { return ends_.data(); }
  const std::uint8_t* success_N() const override { return successes_.data(); }

  void check(cudaStream_t stream) override {
    check_cuda(cudaStreamSynchronize(stream), "environments");
    const unsigned long long bad = bad_action_.to_host()[0];
    if (bad == kNoBadAction) return;
    copy_to_device(bad_action_, &kNoBadAction);
    if (info_.action.continuous())
      throw std::invalid_argument("the action of environment " + std::to_string(bad >> 32) +
                                  " has a number that is not finite");
    throw std::invalid_argument("action " + std::to_string(static_cast<std::int32_t>(bad)) + " of environment " +
                                std::to_string(bad >> 32) + " is not one of 0.." +
                                std::to_string(info_.num_actions() - 1));
  }

 private:
  template <class T>
  static void copy_to_device(DeviceBuffer<T>& to, const T* from) {
    check_cuda(cudaMemcpy(to.data(), from, to.size() * sizeof(T), cudaMemcpyHostToDevice), "copy to the device");
  }

  template <auto... kKernels>
  void allow_shared_memory() const {
    (check_cuda(
         cudaFuncSetAttribute(kKernels, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes_)),
         "environments: shared memory"),
     ...);
  }

  Rows<Task> rows() {
    return {size_,
            tile_,
            static_cast<int>(info_.observation.elements()),
            rules_.data(),
            states_.data(),
            rngs_.data(),
            episodes_.data(),
            rewards_.data(),
            ends_.data(),
            successes_.data(),
            observations_.data()};
  }
  int blocks_of(int tile) const { return (size_ + tile - 1) / tile; }

  template <class Advance>
  void launch(const Advance& advance, cudaStream_t stream, const char* what) {
    launch_early<advance_kernel<Task, Advance>>(blocks_of(tile_), kTile, shared_bytes_, stream, what, rows(), advance);
  }
  template <class Move>
  void launch_recorded(const Move& move, const EpisodeRecorder& recorder, std::uint8_t* fresh_N, cudaStream_t stream,
                       const char* what) {
    launch_early<recorded_kernel<Task, Move>>(blocks_of(std::min(kRecordedTile, tile_)), kTile, shared_bytes_, stream,
                                              what, rows(), move, recorder, fresh_N);
  }

  const TaskInfo info_;
  const int size_;
  const int tile_;
  const std::size_t shared_bytes_;
  DeviceBuffer<Rules<Task>> rules_;
  DeviceBuffer<State> states_;
  DeviceBuffer<Rng> rngs_;
  DeviceBuffer<std::uint32_t> episodes_;
  DeviceBuffer<Element> observations_;
  DeviceBuffer<float> rewards_;
  DeviceBuffer<End> ends_;
  DeviceBuffer<std::uint8_t> successes_;
  DeviceBuffer<unsigned long long> bad_action_;
};

}  // namespace cuda_env

using cuda_env::CudaVecEnvOf;

template <class Task>
std::unique_ptr<CudaVecEnv> make_cuda_vec_env_of(const AnyTaskOptions& options, std::uint64_t seed, Purpose purpose,
                                                 int num_envs, std::uint32_t first_environment) {
  return std::make_unique<CudaVecEnvOf<Task>>(dynamic_cast<const typename Task::Options&>(options), seed, purpose,
                                              num_envs, first_environment);
}

}  // namespace engram
