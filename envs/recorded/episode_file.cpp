#include "envs/recorded/episode_file.h"

#include <fstream>
#include <optional>
#include <vector>

#include "base/error.h"
#include "base/text/text.h"
#include "envs/recorded/played.h"
#include "envs/recorded/replay.h"

namespace engram {
namespace {

using recorded::Json;

// JSON whose depth is bounded: functions that walk over a value call themselves once for each level.
Json parse_line(const std::string& line) {
  constexpr int kMaxDepth = 8;
  return Json::parse(line, [](int depth, Json::parse_event_t, Json&) {
    if (depth > kMaxDepth) throw UserError("it is nested too deeply");
    return true;
  });
}

struct RecordedTask {
  const char* name;
  std::optional<std::string> (*replay)(const Json& episode);
};
constexpr RecordedTask kTasks[] = {
    {"visual_match", recorded::replay_visual_match},
    {"key_to_door", recorded::replay_key_to_door},
    {"tmaze", recorded::replay_tmaze},
    {"repeat_first", recorded::replay_repeat_first},
    {"repeat_previous", recorded::replay_repeat_previous},
    {"autoencode", recorded::replay_autoencode},
    {"count_recall", recorded::replay_count_recall},
    {"concentration", recorded::replay_concentration},
    {"multiarmed_bandit", recorded::replay_multiarmed_bandit},
    {"higher_lower", recorded::replay_higher_lower},
    {"minesweeper", recorded::replay_minesweeper},
    {"battleship", recorded::replay_battleship},
    {"memory_chain", recorded::replay_memory_chain},
    {"umbrella_chain", recorded::replay_umbrella_chain},
    {"minigrid_memory", recorded::replay_minigrid_memory},
    {"red_blue_doors", recorded::replay_red_blue_doors},
    {"door_key", recorded::replay_door_key},
    {"cartpole", recorded::replay_cartpole},
    {"pendulum", recorded::replay_pendulum},
    {"dark_key_to_door", recorded::replay_dark_key_to_door},
    {"endless_tmaze", recorded::replay_endless_tmaze},
    {"labyrinth_escape", recorded::replay_labyrinth_escape},
    {"labyrinth_explore", recorded::replay_labyrinth_explore},
    {"mortar_mayhem", recorded::replay_mortar_mayhem},
    {"mystery_path", recorded::replay_mystery_path},
};

std::optional<std::string> replay_episode(const Json& episode) {
  if (recorded::is_played(episode)) return recorded::replay_played(episode);
  std::vector<std::string> names;
  for (const RecordedTask& task : kTasks) names.emplace_back(task.name);
  return kTasks[recorded::get_word(episode, "env", names)].replay(episode);
}

// Calls take(episode, where) for each episode, a JSON object; errors name the line. Returns how many there are.
template <class Take>
int for_each_episode(std::istream& file, const std::string& path, const Take& take) {
  int episodes = 0;
  std::string line;
  for (int line_number = 1; std::getline(file, line); ++line_number) {
    if (line_number == 1) line = without_byte_order_mark(line, "'" + path + "'");
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + ", line " + std::to_string(line_number);
    try {
      const Json episode = parse_line(line);
      if (!episode.is_object()) throw UserError("the line is not a JSON object");
      ++episodes;
      take(episode, where);
    } catch (const Json::parse_error& error) {
      throw UserError(where + ": not JSON (at character " + std::to_string(error.byte) + ")");
    } catch (const Json::out_of_range&) {
      throw UserError(where + ": a number is too large");
    } catch (const UserError& error) {
      throw UserError(where + ": " + error.what());
    }
  }
  if (file.bad()) throw UserError("cannot read '" + path + "' to its end");
  if (episodes == 0) throw UserError("'" + path + "' holds no episode; it takes one JSON object a line");
  return episodes;
}

std::ifstream open_file(const std::string& path) {
  std::ifstream file(path);
  if (!file) throw UserError("cannot read '" + path + "'");
  return file;
}

}  // namespace

EpisodeFileReport replay_episode_file(const std::string& path) {
  std::ifstream file = open_file(path);
  return replay_episodes(file, path);
}

EpisodeFileReport replay_episodes(std::istream& file, const std::string& path) {
  EpisodeFileReport report;
  int replayed = 0;
  report.episodes = for_each_episode(file, path, [&](const Json& episode, const std::string& where) {
    const std::optional<std::string> mismatch = replay_episode(episode);
    ++replayed;
    if (!mismatch || report.mismatches++ > 0) return;
    const char* const name = recorded::is_played(episode) ? "task" : "env";
    report.first_mismatch = "episode " + std::to_string(replayed) + " (" + where + ", " +
                            episode[name].get<std::string>() + "), " + *mismatch;
  });
  return report;
}

std::vector<PlayedEpisode> read_played_episodes(const std::string& path) {
  std::ifstream file = open_file(path);
  std::vector<PlayedEpisode> episodes;
  for_each_episode(file, path, [&](const Json& episode, const std::string&) {
    if (!recorded::is_played(episode))
      throw UserError("the episode has a layout of its own instead of a stream of random numbers ('task', 'seed' ...)");
    episodes.push_back(recorded::read_played(episode));
  });
  return episodes;
}

}  // namespace engram
