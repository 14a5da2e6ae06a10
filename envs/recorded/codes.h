// What formats of recorded episodes share that write values as single characters.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "envs/recorded/fields.h"
#include "envs/recorded/play.h"

namespace engram::recorded {

// The characters of so many kinds of cards, or of so many values of an observation's part.
inline std::string digits(int kinds) { return std::string("0123456789abc").substr(0, static_cast<std::size_t>(kinds)); }

// Appends a one-hot code of `width` numbers; of a value that is none of 0 .. width - 1 they are all 0.
inline void show_code(int value, int width, std::vector<float>& observations) {
  for (int at = 0; at < width; ++at) observations.push_back(at == value ? 1.0f : 0.0f);
}

// Rewards, one character each for its place among `reward_values`, and how the episode ends.
inline Recording<float> read_outcomes(const Json& episode, std::size_t length) {
  Recording<float> recording;
  const Json& values = field_of(episode, "reward_values");
  constexpr std::size_t kMostValues = 4;
  if (!values.is_array() || values.empty() || values.size() > kMostValues)
    refuse("reward_values", values, "1 to " + std::to_string(kMostValues) + " numbers");
  for (const int value : get_symbols(episode, "rewards", length, {digits(static_cast<int>(values.size()))}))
    recording.rewards.push_back(as_float("reward_values", values[static_cast<std::size_t>(value)]));
  recording.end = get_word(episode, "end", {"terminated", "truncated"}) == 0 ? End::kTerminated : End::kTruncated;
  recording.success = get_bool(episode, "success");
  return recording;
}

}  // namespace engram::recorded
