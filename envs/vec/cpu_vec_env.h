// CpuVecEnv: a VecEnv over the rules of any task, with threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "envs/task.h"
#include "envs/vec/vec_env.h"
#include "envs/vec/worker_pool.h"

namespace engram {

template <GridTask Task>
class CpuVecEnv final : public VecEnv {
 public:
  using Params = typename Task::Params;
  using State = typename Task::State;
  using Element = typename Task::Element;

  // The options must be valid.
  CpuVecEnv(const typename Task::Options& options, std::uint64_t seed, Purpose purpose, int num_envs, int num_threads,
            std::uint32_t first_environment = 0)
      : seed_(seed),
        purpose_(purpose),
        first_environment_(first_environment),
        info_(task_info<Task>(options)),
        elements_(static_cast<std::size_t>(info_.observation.elements())),
        params_(Task::make_params(options, seed, purpose)),
        num_actions_(num_actions<Task>(params_)),
        states_(num_envs),
        rngs_(num_envs),
        episodes_(num_envs),
        rewards_(num_envs),
        ends_(num_envs),
        observations_(num_envs * elements_),
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
    may_have_ended_ = false;
  }

  void move_streams(std::uint32_t first_environment) override {
    first_environment_ = first_environment;
    reset_all(0);
  }

  void step(std::span<const std::int32_t> action_N) override {
    check_actions(action_N);
    if (may_have_ended_)
      for (int i = 0; i < size(); ++i)
        if (ends_[i] != End::kNone) refuse_ended(i);
    advance([this, action_N](int i) { return step_one(i, row_of(action_N, i)); });
  }

  void reset_finished() override {
    if (!may_have_ended_) return;
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i)
        if (ends_[i] != End::kNone) reset_one(i, episodes_[i] + 1);
    });
    may_have_ended_ = false;
  }

  void reset_chosen(std::span<const std::uint8_t> chosen_N) override {
    if (chosen_N.size() != states_.size())
      throw std::invalid_argument(std::to_string(chosen_N.size()) + " choices for " + std::to_string(states_.size()) +
                                  " environments");
    pool_.run(size(), [&](int begin, int end) {
      for (int i = begin; i < end; ++i)
        if (chosen_N[i] != 0) reset_one(i, episodes_[i] + 1);
    });
  }

  void step_or_reset(std::span<const std::int32_t> action_N) override {
    check_actions(action_N);
    advance([this, action_N](int i) {
      if (ends_[i] == End::kNone) return step_one(i, row_of(action_N, i));
      reset_one(i, episodes_[i] + 1);
      return false;
    });
  }

  void reset_row(int row, std::uint32_t episode) override {
    check_row(row);
    reset_one(row, episode);
  }
  using VecEnv::step_row;
  void step_row(int row, std::span<const std::int32_t> action) override {
    check_row(row);
    check_size(action, 1);
    check_action(row, action.data());
    if (ends_[row] != End::kNone) refuse_ended(row);
    may_have_ended_ |= step_one(row, action.data());
  }

  std::span<const std::byte> observation_N() const override { return std::as_bytes(std::span(observations_)); }
  std::span<const float> reward_N() const override { return rewards_; }
  std::span<const End> end_N() const override { return ends_; }
  std::span<const std::uint8_t> success_N() const override { return successes_; }

  void draw(int environment, Canvas& canvas) const override { Task::draw(params_, states_.at(environment), canvas); }
  std::string phase(int environment) const override { return Task::phase(params_, states_.at(environment)); }
  std::optional<Cue> cue(int environment) const override {
    if constexpr (requires { Task::cue(params_, states_[0]); })
      return Task::cue(params_, states_.at(environment));
    else
      return {};
  }
  std::optional<bool> decided(int environment) const override {
    if constexpr (requires { Task::decided(params_, states_[0]); })
      return Task::decided(params_, states_.at(environment));
    else
      return {};
  }

 private:
  static constexpr int kWords = action_words<Task>();
  static const std::int32_t* row_of(std::span<const std::int32_t> action_N, int i) {
    return action_N.data() + static_cast<std::ptrdiff_t>(i) * kWords;
  }

  static void check_size(std::span<const std::int32_t> action_N, std::size_t size) {
    if (action_N.size() == size * kWords) return;
    const std::string each = kWords == 1 ? "" : " of " + std::to_string(kWords) + " numbers";
    throw std::invalid_argument(std::to_string(action_N.size()) + (kWords == 1 ? " actions" : " numbers") + " for " +
                                std::to_string(size) + " environments" + each);
  }
  void check_actions(std::span<const std::int32_t> action_N) const {
    check_size(action_N, states_.size());
    for (int i = 0; i < size(); ++i) check_action(i, row_of(action_N, i));
  }
  void check_action(int i, const std::int32_t* row) const {
    if (is_action<Task>(num_actions_, row)) return;
    if constexpr (ContinuousTask<Task>)
      throw std::invalid_argument("the action of environment " + std::to_string(i) +
                                  " has a number that is not finite");
    else
      throw std::invalid_argument("action " + std::to_string(*row) + " of environment " + std::to_string(i) +
                                  " is not one of 0.." + std::to_string(num_actions_ - 1));
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

  // advance_one(i), of every environment, returns whether its episode has ended. By value, as what it captures: a
  // reference would be read again for every environment.
  template <class AdvanceOne>
  void advance(AdvanceOne advance_one) {
    std::atomic<bool> any_ended = false;
    pool_.run(size(), [advance_one, &any_ended](int begin, int end) {
      bool ended = false;
      for (int i = begin; i < end; ++i) ended |= advance_one(i);
      if (ended) any_ended.store(true, std::memory_order_relaxed);
    });
    may_have_ended_ = any_ended;
  }

  // Returns whether the step ended the episode.
  bool step_one(int i, const std::int32_t* row) {
    const Outcome outcome = step_with_row<Task>(params_, states_[i], row, rngs_[i]);
    rewards_[i] = outcome.reward;
    ends_[i] = outcome.end;
    successes_[i] = Task::success(params_, states_[i]);
    observe_one(i);
    return outcome.end != End::kNone;
  }

  void reset_one(int i, std::uint32_t episode) {
    episodes_[i] = episode;
    rngs_[i] = Rng(seed_, purpose_, first_environment_ + static_cast<std::uint32_t>(i), episode);
    states_[i] = Task::reset(params_, rngs_[i]);
    rewards_[i] = 0;
    ends_[i] = End::kNone;
    successes_[i] = Task::success(params_, states_[i]);
    observe_one(i);
  }

  void observe_one(int i) { Task::observe(params_, states_[i], observations_.data() + i * elements_); }

  const std::uint64_t seed_;
  const Purpose purpose_;
  std::uint32_t first_environment_;
  const TaskInfo info_;
  const std::size_t elements_;  // of one observation
  const Params params_;
  const int num_actions_;
  std::vector<State> states_;
  std::vector<Rng> rngs_;
  std::vector<std::uint32_t> episodes_;  // number of the one under way
  std::vector<float> rewards_;
  std::vector<End> ends_;
  std::vector<Element> observations_;
  std::vector<std::uint8_t> successes_;
  bool may_have_ended_ = false;  // an episode, since the last reset of all that had
  WorkerPool pool_;
};

}  // namespace engram
