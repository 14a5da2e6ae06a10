// A line of an episode that was played (envs/recorded/played_episode.h).
#pragma once

#include <optional>
#include <string>

#include "envs/recorded/fields.h"
#include "envs/recorded/played_episode.h"

namespace engram::recorded {

// Whether the object says that it is one, instead of an episode with a layout of its own.
bool is_played(const Json& episode);

// Throws UserError, naming the field, unless all fields fit each other.
PlayedEpisode read_played(const Json& episode);

std::optional<std::string> replay_played(const Json& episode);

}  // namespace engram::recorded
