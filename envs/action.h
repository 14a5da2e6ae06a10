// What an agent does in a step, and how it lies in memory: one of some actions that have names, or numbers within
// bounds. An action's row is 32-bit words: the number of a discrete action, or the float32 of a continuous one, one
// after the other.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "base/rng.h"

namespace engram {

// A number of a continuous action. One beyond the bounds counts as the bound.
struct ActionNumber {
  const char* name;
  float least, most;  // finite
};

struct ActionSpec {
  std::vector<std::string> names;     // of the discrete actions 0, 1, 2 ...; of a continuous one: none
  std::vector<ActionNumber> numbers;  // of a continuous action; of discrete ones: none

  bool continuous() const { return !numbers.empty(); }
  int words() const { return continuous() ? static_cast<int>(numbers.size()) : 1; }
  // How many numbers say what a policy draws an action from: a probability for each discrete action; or of each number
  // of a continuous one, which are independent and normal, first the means and then the logarithms of the standard
  // deviations.
  int policy_numbers() const { return static_cast<int>(continuous() ? 2 * numbers.size() : names.size()); }
};

HOST_DEVICE inline float number_of(std::int32_t word) {
  float number;
  std::memcpy(&number, &word, sizeof number);
  return number;
}
HOST_DEVICE inline std::int32_t word_of(float number) {
  std::int32_t word;
  std::memcpy(&word, &number, sizeof word);
  return word;
}

// Whether all of the rows are actions: numbers 0 .. names.size() - 1, or finite.
bool are_actions(const ActionSpec& spec, std::span<const std::int32_t> rows);

// An action drawn uniformly, for a row of spec.words().
void draw_action(const ActionSpec& spec, Rng& rng, std::int32_t* row);

// For people: "left", or "torque 1.25".
std::string action_text(const ActionSpec& spec, std::span<const std::int32_t> row);

}  // namespace engram
