#include "kernels/episode_store/episode_store.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/cuda_support.h"
#include "tests/gpu.h"

using namespace engram;
using engram::testing::skip_without_gpu;

namespace {

constexpr std::uint8_t kPoison = 0xA5;

template <class T>
std::vector<T> poisoned(std::size_t size) {
  std::vector<T> data(size);
  std::memset(static_cast<void*>(data.data()), kPoison, size * sizeof(T));
  return data;
}

template <class T>
bool same_bytes(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

struct Sizes {
  int slots, max_steps, row_bytes, environments;
};

struct HostStore {
  explicit HostStore(const Sizes& sizes)
      : observation(
            poisoned<std::uint8_t>(static_cast<std::size_t>(sizes.slots) * (sizes.max_steps + 1) * sizes.row_bytes)),
        action(poisoned<std::int32_t>(static_cast<std::size_t>(sizes.slots) * sizes.max_steps)),
        reward(poisoned<float>(action.size())),
        steps(poisoned<std::int32_t>(sizes.slots)),
        terminated(poisoned<std::uint8_t>(sizes.slots)),
        success(poisoned<std::uint8_t>(sizes.slots)) {}

  std::vector<std::uint8_t> observation;
  std::vector<std::int32_t> action;
  std::vector<float> reward;
  std::vector<std::int32_t> steps;
  std::vector<std::uint8_t> terminated, success;
};

// What an environment shows at one moment.
struct Moment {
  std::vector<std::uint8_t> observation;  // [N, row_bytes]
  std::vector<std::int32_t> action;
  std::vector<float> reward;
  std::vector<std::uint8_t> end, success;
};

Moment random_moment(const Sizes& sizes, Rng& rng) {
  Moment moment;
  for (int i = 0; i < sizes.environments * sizes.row_bytes; ++i)
    moment.observation.push_back(static_cast<std::uint8_t>(rng.below(256)));
  for (int i = 0; i < sizes.environments; ++i) {
    moment.action.push_back(static_cast<std::int32_t>(rng.below(4)));
    moment.reward.push_back(rng.uniform() - 0.5f);
    const std::uint32_t end = rng.below(16);
    moment.end.push_back(end == 1 || end == 2 ? static_cast<std::uint8_t>(end) : 0);
    moment.success.push_back(static_cast<std::uint8_t>(rng.below(2)));
  }
  return moment;
}

// The store as the contract words it.
class Reference {
 public:
  HostStore store;
  std::vector<std::uint8_t> running;

  explicit Reference(const Sizes& sizes) : store(sizes), running(sizes.environments, 0), sizes_(sizes) {}

  void begin(const std::vector<std::int64_t>& slots, const Moment& moment) {
    slots_ = slots;
    for (int i = 0; i < sizes_.environments; ++i) {
      store.steps[slots[i]] = 0;
      store.terminated[slots[i]] = store.success[slots[i]] = 0;
      running[i] = 1;
      write_observation(i, 0, moment);
    }
  }
  void record(const Moment& moment) {
    for (int i = 0; i < sizes_.environments; ++i) {
      const std::int64_t slot = slots_[i];
      const std::int32_t t = store.steps[slot];
      if (running[i] == 0 || t == sizes_.max_steps) continue;
      store.action[slot * sizes_.max_steps + t] = moment.action[i];
      store.reward[slot * sizes_.max_steps + t] = moment.reward[i];
      write_observation(i, t + 1, moment);
      store.steps[slot] = t + 1;
      if (moment.end[i] == 0) continue;
      running[i] = 0;
      store.terminated[slot] = moment.end[i] == 1;
      store.success[slot] = moment.success[i];
    }
  }

 private:
  Sizes sizes_;
  std::vector<std::int64_t> slots_;

  void write_observation(int i, std::int32_t row, const Moment& moment) {
    std::copy_n(moment.observation.begin() + static_cast<std::ptrdiff_t>(i) * sizes_.row_bytes, sizes_.row_bytes,
                store.observation.begin() + (slots_[i] * (sizes_.max_steps + 1) + row) * sizes_.row_bytes);
  }
};

struct DeviceStore {
  explicit DeviceStore(const Sizes& sizes) : DeviceStore(sizes, HostStore(sizes)) {}
  DeviceStore(const Sizes& sizes, const HostStore& host)
      : observation(host.observation),
        action(host.action),
        reward(host.reward),
        steps(host.steps),
        terminated(host.terminated),
        success(host.success),
        view{sizes.slots,   sizes.max_steps, sizes.row_bytes,   observation.data(), action.data(),
             reward.data(), steps.data(),    terminated.data(), success.data()} {}

  std::string difference(const HostStore& expected) const {
    if (!same_bytes(observation.to_host(), expected.observation)) return "observation";
    if (!same_bytes(action.to_host(), expected.action)) return "action";
    if (!same_bytes(reward.to_host(), expected.reward)) return "reward";
    if (!same_bytes(steps.to_host(), expected.steps)) return "steps";
    if (!same_bytes(terminated.to_host(), expected.terminated)) return "terminated";
    if (!same_bytes(success.to_host(), expected.success)) return "success";
    return "";
  }

  DeviceBuffer<std::uint8_t> observation;
  DeviceBuffer<std::int32_t> action;
  DeviceBuffer<float> reward;
  DeviceBuffer<std::int32_t> steps;
  DeviceBuffer<std::uint8_t> terminated, success;
  EpisodeStore view;
};

// A moment in device memory, at addresses that stay.
class DeviceMoment {
 public:
  explicit DeviceMoment(const Sizes& sizes)
      : observation_(static_cast<std::size_t>(sizes.environments) * sizes.row_bytes),
        action_(sizes.environments),
        reward_(sizes.environments),
        end_(sizes.environments),
        success_(sizes.environments) {}

  void set(const Moment& moment) {
    upload(observation_, moment.observation);
    upload(action_, moment.action);
    upload(reward_, moment.reward);
    upload(end_, moment.end);
    upload(success_, moment.success);
  }
  const void* observation() const { return observation_.data(); }
  EpisodeStep step() const {
    return {action_.data(), reward_.data(), end_.data(), success_.data(), observation_.data()};
  }

 private:
  template <class T>
  static void upload(DeviceBuffer<T>& to, const std::vector<T>& from) {
    check_cuda(cudaMemcpy(to.data(), from.data(), from.size() * sizeof(T), cudaMemcpyHostToDevice), "upload");
  }

  DeviceBuffer<std::uint8_t> observation_;
  DeviceBuffer<std::int32_t> action_;
  DeviceBuffer<float> reward_;
  DeviceBuffer<std::uint8_t> end_, success_;
};

std::vector<std::int64_t> random_slots(const Sizes& sizes, Rng& rng) {
  std::vector<std::int64_t> slots(sizes.slots);
  std::iota(slots.begin(), slots.end(), 0);
  for (std::uint32_t i = 0; i < slots.size(); ++i)
    std::swap(slots[i], slots[i + rng.below(static_cast<std::uint32_t>(slots.size()) - i)]);
  slots.resize(sizes.environments);
  return slots;
}

// The batch as the contract words it, and the same from the device.
struct Batch {
  Batch(const Sizes& sizes, std::size_t size)
      : observation(poisoned<std::uint8_t>(size * (sizes.max_steps + 1) * sizes.row_bytes)),
        previous_action(poisoned<std::int64_t>(size * (sizes.max_steps + 1))),
        previous_reward(poisoned<float>(size * (sizes.max_steps + 1))),
        action(poisoned<std::int64_t>(size * sizes.max_steps)),
        reward(poisoned<float>(size * sizes.max_steps)),
        terminated(reward),
        steps(poisoned<std::int64_t>(size)),
        mask(reward) {}

  std::string difference(const Batch& expected) const {
    if (!same_bytes(observation, expected.observation)) return "observation";
    if (!same_bytes(previous_action, expected.previous_action)) return "previous action";
    if (!same_bytes(previous_reward, expected.previous_reward)) return "previous reward";
    if (!same_bytes(action, expected.action)) return "action";
    if (!same_bytes(reward, expected.reward)) return "reward";
    if (!same_bytes(terminated, expected.terminated)) return "terminated";
    if (!same_bytes(steps, expected.steps)) return "steps";
    if (!same_bytes(mask, expected.mask)) return "mask";
    return "";
  }

  std::vector<std::uint8_t> observation;
  std::vector<std::int64_t> previous_action;
  std::vector<float> previous_reward;
  std::vector<std::int64_t> action;
  std::vector<float> reward, terminated;
  std::vector<std::int64_t> steps;
  std::vector<float> mask;
};

constexpr std::int64_t kNumActions = 4;

Batch gather_reference(const Sizes& sizes, const HostStore& store, const std::vector<std::int64_t>& slots) {
  Batch batch(sizes, slots.size());
  const std::size_t max_steps = sizes.max_steps, row_bytes = sizes.row_bytes;
  for (std::size_t b = 0; b < slots.size(); ++b) {
    const std::size_t slot = slots[b], steps = store.steps[slot];
    batch.steps[b] = store.steps[slot];
    for (std::size_t t = 0; t <= max_steps; ++t) {
      const std::size_t at = b * (max_steps + 1) + t;
      for (std::size_t k = 0; k < row_bytes; ++k)
        batch.observation[at * row_bytes + k] =
            t <= steps ? store.observation[(slot * (max_steps + 1) + t) * row_bytes + k] : 0;
      const bool previous = t >= 1 && t <= steps;
      batch.previous_action[at] = previous ? store.action[slot * max_steps + t - 1] : kNumActions;
      batch.previous_reward[at] = previous ? store.reward[slot * max_steps + t - 1] : 0;
    }
    for (std::size_t t = 0; t < max_steps; ++t) {
      const std::size_t at = b * max_steps + t;
      batch.action[at] = t < steps ? store.action[slot * max_steps + t] : 0;
      batch.reward[at] = t < steps ? store.reward[slot * max_steps + t] : 0;
      batch.mask[at] = t < steps ? 1 : 0;
      batch.terminated[at] = t + 1 == steps && store.terminated[slot] == 1 ? 1 : 0;
    }
  }
  return batch;
}

Batch gather_on_device(const Sizes& sizes, const EpisodeStore& store, const std::vector<std::int64_t>& slots) {
  Batch batch(sizes, slots.size());
  const DeviceBuffer<std::int64_t> slot_B(slots);
  DeviceBuffer<std::uint8_t> observation(batch.observation);
  DeviceBuffer<std::int64_t> previous_action(batch.previous_action), action(batch.action), steps(batch.steps);
  DeviceBuffer<float> previous_reward(batch.previous_reward), reward(batch.reward), terminated(batch.terminated),
      mask(batch.mask);
  gather_episodes(
      store,
      {static_cast<int>(slots.size()), slot_B.data(), kNumActions, observation.data(), previous_action.data(),
       previous_reward.data(), action.data(), reward.data(), terminated.data(), steps.data(), mask.data()},
      nullptr);
  batch.observation = observation.to_host();
  batch.previous_action = previous_action.to_host();
  batch.previous_reward = previous_reward.to_host();
  batch.action = action.to_host();
  batch.reward = reward.to_host();
  batch.terminated = terminated.to_host();
  batch.steps = steps.to_host();
  batch.mask = mask.to_host();
  return batch;
}

const std::vector<Sizes> kSizes = {{1, 1, 1, 1},      {3, 1, 75, 1},    {5, 23, 75, 1},   {70, 23, 75, 33},
                                   {70, 23, 8, 33},   {50, 40, 17, 33}, {40, 7, 131, 40}, {1100, 30, 75, 1000},
                                   {9, 300, 1000, 3}, {7, 64, 16, 5}};

std::string name(const Sizes& sizes) {
  return std::to_string(sizes.slots) + " slots of " + std::to_string(sizes.max_steps) + " steps, " +
         std::to_string(sizes.row_bytes) + " bytes, " + std::to_string(sizes.environments) + " environments";
}

}  // namespace

TEST_CASE("episodes are recorded as they happen, and gathered as they were recorded") {
  if (skip_without_gpu()) return;
  for (const Sizes& sizes : kSizes) {
    CAPTURE(name(sizes));
    Rng rng(1, Purpose::kTest, 0, 0);
    Reference reference(sizes);
    DeviceStore device(sizes);
    DeviceMoment moment(sizes);
    DeviceBuffer<std::uint8_t> running(reference.running);
    std::vector<std::int64_t> begun;
    for (int round = 0; round < 3; ++round) {
      const std::vector<std::int64_t> slots = random_slots(sizes, rng);
      begun.insert(begun.end(), slots.begin(), slots.end());
      const DeviceBuffer<std::int64_t> slot_N(slots);
      const EpisodeRecorders recorders{sizes.environments, slot_N.data(), running.data()};
      const Moment first = random_moment(sizes, rng);
      moment.set(first);
      reference.begin(slots, first);
      begin_episodes(device.view, recorders, moment.observation(), nullptr);
      for (int t = 0; t < sizes.max_steps + 2; ++t) {
        const Moment next = random_moment(sizes, rng);
        moment.set(next);
        reference.record(next);
        record_step(device.view, recorders, moment.step(), nullptr);
        if (t % 16 != 0 && t < sizes.max_steps - 1) continue;
        REQUIRE(device.difference(reference.store) == "");
        REQUIRE(running.to_host() == reference.running);
      }
    }
    for (const std::size_t size : {std::size_t{1}, std::size_t{7}, std::size_t{64}}) {
      std::vector<std::int64_t> slots(size);
      for (std::int64_t& slot : slots) slot = begun[rng.below(static_cast<std::uint32_t>(begun.size()))];
      const Batch expected = gather_reference(sizes, reference.store, slots);
      CHECK(gather_on_device(sizes, device.view, slots).difference(expected) == "");
    }
  }
}

TEST_CASE("the comparison finds one wrong byte in a store and in a batch") {
  if (skip_without_gpu()) return;
  const Sizes sizes{5, 23, 75, 1};
  HostStore store(sizes);
  std::fill(store.steps.begin(), store.steps.end(), 22);
  std::fill(store.terminated.begin(), store.terminated.end(), 1);
  DeviceStore device(sizes, store);
  CHECK(device.difference(store) == "");
  const std::vector<std::int64_t> slots{4, 0, 4};
  CHECK(gather_on_device(sizes, device.view, slots).difference(gather_reference(sizes, store, slots)) == "");
  store.observation[4 * 24 * 75 + 22 * 75 + 74] ^= 1;
  CHECK(device.difference(store) == "observation");
  CHECK(gather_on_device(sizes, device.view, slots).difference(gather_reference(sizes, store, slots)) == "observation");
}

TEST_CASE("a replayed graph records as launches do") {
  if (skip_without_gpu()) return;
  const Sizes sizes{70, 23, 75, 33};
  Rng rng(2, Purpose::kTest, 0, 0);
  Reference reference(sizes);
  DeviceStore device(sizes);
  DeviceMoment moment(sizes);
  DeviceBuffer<std::uint8_t> running(reference.running);
  const std::vector<std::int64_t> slots = random_slots(sizes, rng);
  const DeviceBuffer<std::int64_t> slot_N(slots);
  const EpisodeRecorders recorders{sizes.environments, slot_N.data(), running.data()};
  const Moment first = random_moment(sizes, rng);
  moment.set(first);
  reference.begin(slots, first);
  begin_episodes(device.view, recorders, moment.observation(), nullptr);
  check_cuda(cudaDeviceSynchronize(), "begin");

  cudaStream_t stream;
  cudaGraph_t graph;
  cudaGraphExec_t replay;
  check_cuda(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
  check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "capture");
  record_step(device.view, recorders, moment.step(), stream);
  check_cuda(cudaStreamEndCapture(stream, &graph), "capture");
  check_cuda(cudaGraphInstantiate(&replay, graph, 0), "graph");
  for (int t = 0; t < sizes.max_steps; ++t) {
    const Moment next = random_moment(sizes, rng);
    moment.set(next);
    reference.record(next);
    check_cuda(cudaGraphLaunch(replay, stream), "graph");
    check_cuda(cudaStreamSynchronize(stream), "graph");
  }
  CHECK(device.difference(reference.store) == "");
  check_cuda(cudaGraphExecDestroy(replay), "graph");
  check_cuda(cudaGraphDestroy(graph), "graph");
  check_cuda(cudaStreamDestroy(stream), "stream");
}
