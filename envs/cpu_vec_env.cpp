#include <algorithm>
#include <atomic>
#include <stdexcept>
#include <variant>

#include "envs/snapshot.h"
#include "envs/vec_env.h"
#include "envs/worker_pool.h"

namespace engram {
namespace {

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
        identity_(snapshot_identity(task, num_envs)),
        elements_(static_cast<std::size_t>(info_.observation.elements())),
        params_(Task::make_params(options, seed, purpose)),
        rows_(seed, purpose, num_envs),
        observations_(num_envs * elements_),
        successes_(num_envs),
        pool_(std::min(num_threads, num_envs)) {
    reset_all(0);
  }

  const TaskInfo& info() const override { return info_; }
  int size() const override { return static_cast<int>(rows_.states.size()); }

  void reset_all(std::uint32_t first_episode) override {
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i) reset_one(i, first_episode);
    });
    may_have_ended_ = false;
  }

  void step(std::span<const std::int32_t> action_N) override {
    check_actions(action_N);
    std::atomic<bool> any_ended = false;
    pool_.run(size(), [&](int begin, int end) {
      bool ended = false;
      for (int i = begin; i < end; ++i) ended |= step_one(i, action_N[i]);
      if (ended) any_ended.store(true, std::memory_order_relaxed);
    });
    may_have_ended_ = any_ended;
  }

  void reset_finished() override {
    if (!may_have_ended_) return;
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i)
        if (rows_.ends[i] != End::kNone) reset_one(i, rows_.episodes[i] + 1);
    });
    may_have_ended_ = false;
  }

  void reset_row(int row, std::uint32_t episode) override {
    check_row(row);
    reset_one(row, episode);
  }
  void step_row(int row, std::int32_t action) override {
    check_row(row);
    check_action(row, action);
    if (rows_.ends[row] != End::kNone) refuse_ended(row);
    may_have_ended_ |= step_one(row, action);
  }

  std::span<const std::byte> observation_N() const override { return std::as_bytes(std::span(observations_)); }
  std::span<const float> reward_N() const override { return rows_.rewards; }
  std::span<const End> end_N() const override { return rows_.ends; }
  std::span<const std::uint8_t> success_N() const override { return successes_; }

  std::vector<std::byte> snapshot() const override { return rows_.to_snapshot(identity_); }

  void restore(std::span<const std::byte> snapshot) override {
    rows_.from_snapshot(identity_, snapshot);
    params_ = Task::make_params(options_, rows_.seed, rows_.purpose);
    may_have_ended_ = true;
    for (int i = 0; i < size(); ++i) {
      successes_[i] = Task::success(params_, rows_.states[i]);
      observe_one(i);
    }
  }

  void draw(int environment, Canvas& canvas) const override {
    Task::draw(params_, rows_.states.at(environment), canvas);
  }
  std::string phase(int environment) const override { return Task::phase(params_, rows_.states.at(environment)); }
  std::optional<Cue> cue(int environment) const override {
    if constexpr (requires { Task::cue(params_, rows_.states[0]); })
      return Task::cue(params_, rows_.states.at(environment));
    else
      return {};
  }

 private:
  void check_actions(std::span<const std::int32_t> action_N) const {
    if (action_N.size() != rows_.states.size())
      throw std::invalid_argument(std::to_string(action_N.size()) + " actions for " +
                                  std::to_string(rows_.states.size()) + " environments");
    for (int i = 0; i < size(); ++i) check_action(i, action_N[i]);
    if (!may_have_ended_) return;
    for (int i = 0; i < size(); ++i)
      if (rows_.ends[i] != End::kNone) refuse_ended(i);
  }
  static void check_action(int i, std::int32_t action) {
    if (static_cast<std::uint32_t>(action) >= static_cast<std::uint32_t>(Task::kNumActions))
      throw std::invalid_argument("action " + std::to_string(action) + " of environment " + std::to_string(i) +
                                  " is not one of 0.." + std::to_string(Task::kNumActions - 1));
  }
  void check_row(int row) const {
    if (row < 0 || row >= size())
      throw std::invalid_argument("environment " + std::to_string(row) + " is not one of 0.." +
                                  std::to_string(size() - 1));
  }
  [[noreturn]] static void refuse_ended(int i) {
    throw std::invalid_argument("the episode of environment " + std::to_string(i) +
                                " has ended; reset it before the next step");
  }

  // Returns whether the step ended the episode.
  bool step_one(int i, std::int32_t action) {
    const Outcome outcome = Task::step(params_, rows_.states[i], action, rows_.rngs[i]);
    rows_.rewards[i] = outcome.reward;
    rows_.ends[i] = outcome.end;
    successes_[i] = Task::success(params_, rows_.states[i]);
    observe_one(i);
    return outcome.end != End::kNone;
  }

  void reset_one(int i, std::uint32_t episode) {
    rows_.episodes[i] = episode;
    rows_.rngs[i] = Rng(rows_.seed, rows_.purpose, static_cast<std::uint32_t>(i), episode);
    rows_.states[i] = Task::reset(params_, rows_.rngs[i]);
    rows_.rewards[i] = 0;
    rows_.ends[i] = End::kNone;
    successes_[i] = Task::success(params_, rows_.states[i]);
    observe_one(i);
  }

  void observe_one(int i) { Task::observe(params_, rows_.states[i], observations_.data() + i * elements_); }

  const typename Task::Options options_;
  const TaskInfo info_;
  const std::string identity_;
  const std::size_t elements_;  // of one observation
  Params params_;
  EnvRows<State> rows_;
  std::vector<Element> observations_;
  std::vector<std::uint8_t> successes_;
  bool may_have_ended_ = false;  // an episode, since the last reset of all that had
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
