// ProbeEnv: a VecEnv over a few lines of rules, for tests. Its observations are vectors of float32.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "envs/vec/vec_env.h"

namespace engram {

// One environment: (environment, episode) name its stream, `step` counts the steps taken, `state` is the rules' own.
struct ProbeRow {
  int environment = 0;
  std::uint32_t episode = 0;
  int step = 0;
  int state = 0;
  bool success = false;
  Rng rng;
};

struct ProbeRules {
  int num_actions;
  int observation_size;
  int max_steps;
  std::function<void(ProbeRow&)> start;
  std::function<Outcome(ProbeRow&, int action)> step;  // `step` of the row counts this step already
  std::function<void(const ProbeRow&, float* observation)> observe;
};

class ProbeEnv : public VecEnv {
 public:
  ProbeEnv(ProbeRules rules, int size, std::uint64_t seed = 1, int first_environment = 0)
      : rules_(std::move(rules)), seed_(seed), row_N_(size), reward_N_(size), end_N_(size), success_N_(size) {
    info_.name = "probe";
    for (int action = 0; action < rules_.num_actions; ++action) info_.action.names.push_back(std::to_string(action));
    info_.observation = {ElementType::kFloat32, single_part({rules_.observation_size})};
    info_.max_episode_steps = rules_.max_steps;
    observation_N_.resize(static_cast<std::size_t>(size) * rules_.observation_size);
    for (int i = 0; i < size; ++i) row_N_[i].environment = first_environment + i;
    ProbeEnv::reset_all();
  }

  const TaskInfo& info() const override { return info_; }
  int size() const override { return static_cast<int>(row_N_.size()); }

  void reset_all(std::uint32_t first_episode = 0) override {
    for (int i = 0; i < size(); ++i) start(i, first_episode);
  }
  void step(std::span<const std::int32_t> action_N) override {
    for (int i = 0; i < size(); ++i)
      if (end_N_[i] != End::kNone || action_N[i] < 0 || action_N[i] >= rules_.num_actions)
        throw std::invalid_argument("a step of a probe that has ended, or a bad action");
    for (int i = 0; i < size(); ++i) ProbeEnv::step_row(i, action_N.subspan(i, 1));
  }
  void move_streams(std::uint32_t) override { throw std::logic_error("a probe stays what it is"); }
  void reset_chosen(std::span<const std::uint8_t>) override { throw std::logic_error("a probe ends by itself"); }
  void step_or_reset(std::span<const std::int32_t>) override { throw std::logic_error("a probe is stepped or reset"); }
  void reset_row(int row, std::uint32_t episode) override { start(row, episode); }
  using VecEnv::step_row;
  void step_row(int row, std::span<const std::int32_t> action) override {
    ++row_N_[row].step;
    const Outcome outcome = rules_.step(row_N_[row], action[0]);
    reward_N_[row] = outcome.reward;
    end_N_[row] = outcome.end;
    observe(row);
  }
  void reset_finished() override {
    for (int i = 0; i < size(); ++i)
      if (end_N_[i] != End::kNone) start(i, row_N_[i].episode + 1);
  }

  std::span<const std::byte> observation_N() const override { return std::as_bytes(std::span(observation_N_)); }
  std::span<const float> reward_N() const override { return reward_N_; }
  std::span<const End> end_N() const override { return end_N_; }
  std::span<const std::uint8_t> success_N() const override { return success_N_; }

  void draw(int, Canvas&) const override { throw std::logic_error("a probe has no picture"); }
  std::string phase(int) const override { return "probe"; }

 private:
  void start(int i, std::uint32_t episode) {
    const int environment = row_N_[i].environment;
    row_N_[i] = {};
    row_N_[i].environment = environment;
    row_N_[i].episode = episode;
    row_N_[i].rng = Rng(seed_, Purpose::kTest, static_cast<std::uint32_t>(environment), episode);
    rules_.start(row_N_[i]);
    reward_N_[i] = 0;
    end_N_[i] = End::kNone;
    observe(i);
  }
  void observe(int i) {
    float* const observation = observation_N_.data() + static_cast<std::ptrdiff_t>(i) * rules_.observation_size;
    std::fill_n(observation, rules_.observation_size, 0.0f);
    rules_.observe(row_N_[i], observation);
    success_N_[i] = row_N_[i].success;
  }

  ProbeRules rules_;
  std::uint64_t seed_;
  TaskInfo info_;
  std::vector<ProbeRow> row_N_;
  std::vector<float> observation_N_, reward_N_;
  std::vector<End> end_N_;
  std::vector<std::uint8_t> success_N_;
};

// Two states, two actions. State 0: action 0 pays 0 and leads to state 1, action 1 pays `pay` and ends. State 1: action
// 0 pays 1, action 1 nothing, both end. The observation is the state, one-hot.
inline ProbeRules two_state_chain(float pay) {
  return {2,
          2,
          2,
          [](ProbeRow&) {},
          [pay](ProbeRow& row, int action) -> Outcome {
            if (row.state == 1) return {action == 0 ? 1.0f : 0.0f, End::kTerminated};
            if (action == 1) return {pay, End::kTerminated};
            row.state = 1;
            return {0, End::kNone};
          },
          [](const ProbeRow& row, float* observation) { observation[row.state] = 1; }};
}

// Two states that alternate whatever is done; the action equal to the state pays 1. Ends after `steps` steps as `end`
// says.
inline ProbeRules alternation(int steps, End end) {
  return {2,
          2,
          steps,
          [](ProbeRow& row) { row.state = static_cast<int>(row.rng.below(2)); },
          [steps, end](ProbeRow& row, int action) -> Outcome {
            const float reward = action == row.state ? 1 : 0;
            row.state = 1 - row.state;
            return {reward, row.step == steps ? end : End::kNone};
          },
          [](const ProbeRow& row, float* observation) { observation[row.state] = 1; }};
}

// A bit is seen at each step; the action equal to it pays 1.
inline ProbeRules identity_task(int steps) {
  return {2,
          2,
          steps,
          [](ProbeRow& row) { row.state = static_cast<int>(row.rng.below(2)); },
          [steps](ProbeRow& row, int action) -> Outcome {
            const bool right = action == row.state;
            row.success = right && (row.step == 1 || row.success);
            row.state = static_cast<int>(row.rng.below(2));
            return {right ? 1.0f : 0.0f, row.step == steps ? End::kTerminated : End::kNone};
          },
          [](const ProbeRow& row, float* observation) { observation[row.state] = 1; }};
}

// A bit is seen at first, then nothing for `delay` steps or one more (drawn), then a sign that asks for it: the action
// equal to the bit pays 1, and the episode ends. Observation: bit one-hot, sign.
inline ProbeRules one_bit_memory(int delay) {
  // state: 2 * length + bit
  return {2,
          3,
          delay + 3,
          [delay](ProbeRow& row) {
            row.state = 2 * (delay + static_cast<int>(row.rng.below(2)) + 2) + static_cast<int>(row.rng.below(2));
          },
          [](ProbeRow& row, int action) -> Outcome {
            if (row.step < row.state / 2) return {0, End::kNone};
            row.success = action == row.state % 2;
            return {row.success ? 1.0f : 0.0f, End::kTerminated};
          },
          [](const ProbeRow& row, float* observation) {
            if (row.step == 0) observation[row.state % 2] = 1;
            if (row.step == row.state / 2 - 1) observation[2] = 1;
          }};
}

// Episodes of 1 to `max_steps` steps, of a length that depends on environment and episode; observation (environment,
// episode, step), reward step + 1 / (1 + action). Odd episodes are truncated, even ones terminated.
inline ProbeRules counting(int max_steps) {
  return {3,
          3,
          max_steps,
          [max_steps](ProbeRow& row) {
            row.state = 1 + (row.environment * 5 + 3 * static_cast<int>(row.episode)) % max_steps;
          },
          [](ProbeRow& row, int action) -> Outcome {
            const float reward = static_cast<float>(row.step) + 1 / (1 + static_cast<float>(action));
            if (row.step < row.state) return {reward, End::kNone};
            row.success = row.episode % 2 == 0;
            return {reward, row.success ? End::kTerminated : End::kTruncated};
          },
          [](const ProbeRow& row, float* observation) {
            observation[0] = static_cast<float>(row.environment);
            observation[1] = static_cast<float>(row.episode);
            observation[2] = static_cast<float>(row.step);
          }};
}

}  // namespace engram
