// An episode as recorded, and playing it by the rules.
#pragma once

#include <cstddef>
#include <cstring>
#include <iomanip>
#include <optional>
#include <sstream>
#include <string>
#include <type_traits>
#include <vector>

#include "envs/recorded/fields.h"
#include "envs/task.h"
#include "envs/tasks/memory_rl/board.h"

namespace engram::recorded {

template <class Element>
struct Recording {
  std::vector<int> actions;           // length
  std::vector<float> rewards;         // length
  std::vector<Element> observations;  // (length + 1) x elements
  std::vector<board::Cell> players;   // length, before each step; empty where the format has none
  bool success;
  std::optional<End> end = {};  // where the format says how the episode ends
};

// Of formats with a number for each reward.
template <class Element>
Recording<Element> read_common(const Json& episode, std::size_t length) {
  Recording<Element> recording;
  for (const Json& reward : get_array(episode, "rewards", length))
    recording.rewards.push_back(as_float("rewards", reward));
  recording.success = get_bool(episode, "success");
  return recording;
}

template <class Element>
std::string describe_observation(const Element* observation, std::size_t elements) {
  std::ostringstream text;
  for (std::size_t i = 0; i < elements; ++i) text << (i == 0 ? "" : i % 25 == 0 ? " | " : " ") << +observation[i];
  return text.str();
}

inline std::string describe_cell(board::Cell cell) {
  return "row " + std::to_string(cell.row) + ", column " + std::to_string(cell.column);
}

inline std::string differs(const std::string& what, std::size_t step, const std::string& expected,
                           const std::string& came) {
  return "step " + std::to_string(step) + ": " + what + "\n  expected " + expected + "\n  came     " + came;
}

template <class Number>
std::string number_text(Number number) {
  std::ostringstream text;
  text << std::setprecision(9) << number;
  return text.str();
}

inline std::string end_text(End end) {
  return end == End::kNone ? "no end" : end == End::kTerminated ? "terminated" : "truncated";
}

// A step by the rules, which draw nothing in it.
template <class Task>
struct StepByRules {
  Outcome operator()(const typename Task::Params& params, typename Task::State& state, int action, std::size_t) const {
    Rng rng(0, Purpose::kTest, 0, 0);
    return Task::step(params, state, action, rng);
  }
};

// Plays the recording from `state` and returns what differs first, if anything. `player_of(state)` is asked where the
// recording has positions. Step t (from 0) takes action t by step(params, state, action, t); observation t is the one
// before it.
template <class Task, class PlayerOf = std::nullopt_t, class Step = StepByRules<Task>>
std::optional<std::string> play(const typename Task::Params& params, typename Task::State state,
                                const Recording<typename Task::Element>& recording, PlayerOf player_of = std::nullopt,
                                Step step = {}) {
  const std::size_t length = recording.actions.size();
  const std::size_t elements = recording.observations.size() / (length + 1);
  std::vector<typename Task::Element> observation(elements);
  for (std::size_t t = 0; t <= length; ++t) {
    Task::observe(params, state, observation.data());
    const auto* const expected = recording.observations.data() + t * elements;
    if (std::memcmp(observation.data(), expected, elements * sizeof(*expected)) != 0)
      return differs("observation", t, describe_observation(expected, elements),
                     describe_observation(observation.data(), elements));
    if (t == length) break;
    if constexpr (!std::is_same_v<PlayerOf, std::nullopt_t>) {
      if (!board::same(player_of(state), recording.players[t]))
        return differs("player", t, describe_cell(recording.players[t]), describe_cell(player_of(state)));
    }
    const Outcome outcome = step(params, state, recording.actions[t], t);
    if (outcome.reward != recording.rewards[t])
      return differs("reward", t, number_text(recording.rewards[t]), number_text(outcome.reward));
    const bool last = t + 1 == length;
    if ((outcome.end != End::kNone) != last)
      return differs("end of the episode", t, last ? "the end" : "no end", last ? "no end" : "the end");
    if (last && recording.end && outcome.end != *recording.end)
      return differs("end of the episode", t, end_text(*recording.end), end_text(outcome.end));
  }
  if (Task::success(params, state) != recording.success)
    return differs("success", length, recording.success ? "true" : "false", recording.success ? "false" : "true");
  return std::nullopt;
}

}  // namespace engram::recorded
