// An episode of any task as it was played. What was drawn at random in it is named by its stream of random numbers, so
// that the rules give it again. tests/golden/README.md has its form in a file, a line of JSON.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/registry.h"
#include "envs/task.h"

namespace engram {

struct PlayedEpisode {
  TaskConfig task;
  std::uint64_t seed = 1;  // of the run
  Purpose purpose = Purpose::kEvaluation;
  int environment = 0;
  std::uint32_t episode = 0;
  std::vector<std::int32_t> actions = {};    // T rows (envs/action.h)
  std::vector<float> rewards = {};           // T
  std::vector<std::byte> observations = {};  // (T + 1) x bytes of one
  End end = End::kNone;                      // of the last step; kNone: left before its end
  bool success = false;
};

// Environments are numbered below this: to draw an episode again takes as many of them.
inline constexpr int kMaxPlayedEnvironments = 1024;

// One line, without its end. The episode has a step at least, finite rewards, and a purpose that tasks are played for:
// training, evaluation or test.
std::string played_episode_line(const PlayedEpisode& episode);

// What differs first between the episode and what the rules give for its stream and actions, in words; nothing if all
// observations, rewards, the end and success are the same.
std::optional<std::string> first_difference(const PlayedEpisode& episode);

}  // namespace engram
