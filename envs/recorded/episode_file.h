// Recorded episodes as JSON lines (the format of tests/golden/README.md), played against the rules of the tasks.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "envs/recorded/played_episode.h"

namespace engram {

struct EpisodeFileReport {
  int episodes = 0;
  int mismatches = 0;          // episodes that differ in anything
  std::string first_mismatch;  // line, task and step of the first difference, what the file holds and what came
};

// Sets each episode's task to the recorded layout, gives it the recorded actions and compares observations, rewards,
// player positions, the end and success. Observations are compared byte for byte; a reward agrees if the file's number,
// rounded to float32, equals ours (0 and -0 are equal).
// Throws UserError, naming file, line and what is wrong, for a file that cannot be read, holds no episode, or has a
// line that is not an episode of this format.
EpisodeFileReport replay_episode_file(const std::string& path);

// The same from a stream; `path` names it in messages.
EpisodeFileReport replay_episodes(std::istream& stream, const std::string& path);

// The episodes of a file that engram play wrote, as they stand there: whether the rules give them again,
// first_difference() says. Throws UserError as above, also for an episode of another kind.
std::vector<PlayedEpisode> read_played_episodes(const std::string& path);

}  // namespace engram
