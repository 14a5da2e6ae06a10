// The recorded episode of a task (tests/golden/README.md) set up and played: what differs first, or nothing. Each
// throws a UserError, naming the field, for a JSON object that is not an episode of its task.
#pragma once

#include <optional>
#include <string>

#include "envs/recorded/fields.h"

namespace engram::recorded {

std::optional<std::string> replay_visual_match(const Json& episode);
std::optional<std::string> replay_key_to_door(const Json& episode);
std::optional<std::string> replay_tmaze(const Json& episode);
std::optional<std::string> replay_repeat_first(const Json& episode);
std::optional<std::string> replay_repeat_previous(const Json& episode);
std::optional<std::string> replay_autoencode(const Json& episode);
std::optional<std::string> replay_count_recall(const Json& episode);
std::optional<std::string> replay_concentration(const Json& episode);
std::optional<std::string> replay_multiarmed_bandit(const Json& episode);
std::optional<std::string> replay_higher_lower(const Json& episode);
std::optional<std::string> replay_minesweeper(const Json& episode);
std::optional<std::string> replay_battleship(const Json& episode);
std::optional<std::string> replay_memory_chain(const Json& episode);
std::optional<std::string> replay_umbrella_chain(const Json& episode);
std::optional<std::string> replay_minigrid_memory(const Json& episode);
std::optional<std::string> replay_red_blue_doors(const Json& episode);
std::optional<std::string> replay_door_key(const Json& episode);
std::optional<std::string> replay_cartpole(const Json& episode);
std::optional<std::string> replay_pendulum(const Json& episode);
std::optional<std::string> replay_dark_key_to_door(const Json& episode);
std::optional<std::string> replay_endless_tmaze(const Json& episode);
std::optional<std::string> replay_labyrinth_escape(const Json& episode);
std::optional<std::string> replay_labyrinth_explore(const Json& episode);
std::optional<std::string> replay_mortar_mayhem(const Json& episode);
std::optional<std::string> replay_mystery_path(const Json& episode);

}  // namespace engram::recorded
