#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>
#include <variant>

#include "envs/vec_env.h"
#include "envs/worker_pool.h"

namespace engram {
namespace {

class SnapshotWriter {
 public:
  template <class T>
  void add(const T* data, std::size_t count) {
    const auto* const bytes = reinterpret_cast<const std::byte*>(data);
    bytes_.insert(bytes_.end(), bytes, bytes + count * sizeof(T));
  }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

class SnapshotReader {
 public:
  explicit SnapshotReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  template <class T>
  void take(T* data, std::size_t count) {
    const std::size_t size = count * sizeof(T);
    std::memcpy(data, bytes_.data(), size);
    bytes_ = bytes_.subspan(size);
  }

 private:
  std::span<const std::byte> bytes_;
};

template <GridTask Task>
class CpuVecEnv final : public VecEnv {
 public:
  using Params = typename Task::Params;
  using State = typename Task::State;
  using Element = typename Task::Element;

  CpuVecEnv(const TaskConfig& task, const typename Task::Options& options, std::uint64_t seed, Purpose purpose,
            int num_envs, int num_threads)
      : options_(options),
        info_(task.info()),
        identity_(describe(task, num_envs)),
        elements_(static_cast<std::size_t>(info_.observation.elements())),
        seed_(seed),
        purpose_(purpose),
        params_(Task::make_params(options, seed, purpose)),
        states_(num_envs),
        rngs_(num_envs),
        episodes_(num_envs),
        observations_(num_envs * elements_),
        rewards_(num_envs),
        ends_(num_envs),
        successes_(num_envs),
        pool_(std::min(num_threads, num_envs)) {
    reset_all(0);
  }

  const TaskInfo& info() const override { return info_; }
  int size() const override { return static_cast<int>(states_.size()); }

  void reset_all(std::uint32_t first_episode) override {
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i) reset_one(i, first_episode);
    });
    any_ended_ = false;
  }

  void step(std::span<const std::int32_t> action_N) override {
    check_actions(action_N);
    std::atomic<bool> any_ended = false;
    pool_.run(size(), [&](int begin, int end) {
      bool ended = false;
      for (int i = begin; i < end; ++i) {
        const Outcome outcome = Task::step(params_, states_[i], action_N[i], rngs_[i]);
        rewards_[i] = outcome.reward;
        ends_[i] = outcome.end;
        ended |= outcome.end != End::kNone;
        successes_[i] = Task::success(params_, states_[i]);
        observe_one(i);
      }
      if (ended) any_ended.store(true, std::memory_order_relaxed);
    });
    any_ended_ = any_ended;
  }

  void reset_finished() override {
    if (!any_ended_) return;
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i)
        if (ends_[i] != End::kNone) reset_one(i, episodes_[i] + 1);
    });
    any_ended_ = false;
  }

  std::span<const std::byte> observation_N() const override { return std::as_bytes(std::span(observations_)); }
  std::span<const float> reward_N() const override { return rewards_; }
  std::span<const End> end_N() const override { return ends_; }
  std::span<const std::uint8_t> success_N() const override { return successes_; }

  std::vector<std::byte> snapshot() const override {
    SnapshotWriter writer;
    writer.add(identity_.data(), identity_.size());
    writer.add(&seed_, 1);
    writer.add(&purpose_, 1);
    writer.add(states_.data(), states_.size());
    writer.add(rngs_.data(), rngs_.size());
    writer.add(episodes_.data(), episodes_.size());
    writer.add(rewards_.data(), rewards_.size());
    writer.add(ends_.data(), ends_.size());
    return writer.take();
  }

  void restore(std::span<const std::byte> snapshot) override {
    const std::size_t row_bytes = sizeof(State) + sizeof(Rng) + sizeof(std::uint32_t) + sizeof(float) + sizeof(End);
    const std::size_t size_expected = identity_.size() + sizeof(seed_) + sizeof(purpose_) + states_.size() * row_bytes;
    if (snapshot.size() != size_expected || std::memcmp(snapshot.data(), identity_.data(), identity_.size()) != 0)
      throw std::invalid_argument("the snapshot is not one of: " + identity_);
    SnapshotReader reader(snapshot.subspan(identity_.size()));
    reader.take(&seed_, 1);
    reader.take(&purpose_, 1);
    reader.take(states_.data(), states_.size());
    reader.take(rngs_.data(), rngs_.size());
    reader.take(episodes_.data(), episodes_.size());
    reader.take(rewards_.data(), rewards_.size());
    reader.take(ends_.data(), ends_.size());
    params_ = Task::make_params(options_, seed_, purpose_);
    any_ended_ = std::any_of(ends_.begin(), ends_.end(), [](End end) { return end != End::kNone; });
    for (int i = 0; i < size(); ++i) {
      successes_[i] = Task::success(params_, states_[i]);
      observe_one(i);
    }
  }

  void draw(int environment, Canvas& canvas) const override { Task::draw(params_, states_.at(environment), canvas); }
  std::string phase(int environment) const override { return Task::phase(params_, states_.at(environment)); }

 private:
  // What a snapshot must agree with: task, options and N.
  static std::string describe(TaskConfig task, int num_envs) {
    std::string text = task.name() + " x " + std::to_string(num_envs);
    const OptionList list = task.options();
    for (const Option& option : list.options()) text += ", " + option.name + " = " + option.get();
    return text;
  }

  void check_actions(std::span<const std::int32_t> action_N) const {
    if (action_N.size() != states_.size())
      throw std::invalid_argument(std::to_string(action_N.size()) + " actions for " + std::to_string(states_.size()) +
                                  " environments");
    for (std::size_t i = 0; i < action_N.size(); ++i)
      if (static_cast<std::uint32_t>(action_N[i]) >= static_cast<std::uint32_t>(Task::kNumActions))
        throw std::invalid_argument("action " + std::to_string(action_N[i]) + " of environment " + std::to_string(i) +
                                    " is not one of 0.." + std::to_string(Task::kNumActions - 1));
    if (!any_ended_) return;
    const auto ended = std::find_if(ends_.begin(), ends_.end(), [](End end) { return end != End::kNone; });
    throw std::invalid_argument("the episode of environment " + std::to_string(ended - ends_.begin()) +
                                " has ended; reset it before the next step");
  }

  void reset_one(int i, std::uint32_t episode) {
    episodes_[i] = episode;
    rngs_[i] = Rng(seed_, purpose_, static_cast<std::uint32_t>(i), episode);
    states_[i] = Task::reset(params_, rngs_[i]);
    rewards_[i] = 0;
    ends_[i] = End::kNone;
    successes_[i] = Task::success(params_, states_[i]);
    observe_one(i);
  }

  void observe_one(int i) { Task::observe(params_, states_[i], observations_.data() + i * elements_); }

  const typename Task::Options options_;
  const TaskInfo info_;
  const std::string identity_;
  const std::size_t elements_;  // of one observation
  std::uint64_t seed_;
  Purpose purpose_;
  Params params_;
  std::vector<State> states_;
  std::vector<Rng> rngs_;
  std::vector<std::uint32_t> episodes_;
  std::vector<Element> observations_;
  std::vector<float> rewards_;
  std::vector<End> ends_;
  std::vector<std::uint8_t> successes_;
  bool any_ended_ = false;
  WorkerPool pool_;
};

}  // namespace

int worthwhile_threads(int num_envs, int num_threads) {
  constexpr int kEnvsPerThread = 256;
  return std::clamp(num_envs / kEnvsPerThread, 1, num_threads);
}

std::unique_ptr<VecEnv> make_cpu_vec_env(const TaskConfig& task, std::uint64_t seed, Purpose purpose, int num_envs,
                                         int num_threads) {
  if (num_envs < 1) throw std::invalid_argument(std::to_string(num_envs) + " environments; at least 1 is needed");
  if (num_threads < 1) throw std::invalid_argument(std::to_string(num_threads) + " threads; at least 1 is needed");
  task.check();
  return std::visit(
      [&](const auto& options) -> std::unique_ptr<VecEnv> {
        using Task = typename std::decay_t<decltype(options)>::Task;
        return std::make_unique<CpuVecEnv<Task>>(task, options, seed, purpose, num_envs, num_threads);
      },
      task.variant());
}

}  // namespace engram
