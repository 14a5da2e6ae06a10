// Golden files of recorded episodes, a line of JSON each, and what replaying a line says.
#pragma once

#include <doctest/doctest.h>

#include <cstddef>
#include <fstream>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/recorded/episode_file.h"
#include "tests/flipped_bit.h"

namespace engram::testing {

using Json = nlohmann::json;

inline std::string golden_file(const std::string& name) { return ENGRAM_SOURCE_DIR "/tests/golden/" + name; }

inline std::vector<Json> golden_episodes(const std::string& path) {
  std::vector<Json> episodes;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) episodes.push_back(Json::parse(line));
  return episodes;
}

// The first for which wanted(episode); a failure if there is none.
template <class Wanted>
Json first_episode(const std::string& path, const Wanted& wanted) {
  for (const Json& episode : golden_episodes(path))
    if (wanted(episode)) return episode;
  FAIL("no such episode in " << path);
  return {};
}

// The text with the character at `place` replaced; an episode with that of one of its fields.
inline std::string with_symbol(const Json& text, std::size_t place, char symbol) {
  std::string changed = text;
  changed.at(place) = symbol;
  return changed;
}
inline Json with_symbol(Json episode, const std::string& field, std::size_t place, char symbol) {
  episode[field] = with_symbol(episode[field], place, symbol);
  return episode;
}

inline EpisodeFileReport replay_text(const std::string& text) {
  std::istringstream stream(text);
  return replay_episodes(stream, "it");
}

// From the step on; "" if nothing differs.
inline std::string mismatch_of(const Json& episode) {
  const std::string text = replay_text(episode.dump()).first_mismatch;
  const std::size_t step = text.find("step ");
  return step == std::string::npos ? text : text.substr(step);
}

// What is wrong with the line; "" if nothing is.
inline std::string error_of(const std::string& text) {
  try {
    replay_text(text);
    return "";
  } catch (const UserError& error) {
    return error.what();
  }
}
inline std::string error_of(const Json& episode) { return error_of(episode.dump()); }

inline void check_all_matched(const std::string& path) {
  const EpisodeFileReport report = replay_episode_file(path);
  CHECK(report.first_mismatch == "");
  CHECK(report.mismatches == 0);
  CHECK(report.episodes == static_cast<int>(golden_episodes(path).size()));
}

// Every field but the `unread` ones is refused by name where it is missing or null.
inline void check_fields(const Json& episode, const std::set<std::string>& unread) {
  for (const auto& [key, value] : episode.items()) {
    if (unread.contains(key)) continue;
    Json changed = episode;
    changed.erase(key);
    CHECK(error_of(changed) == "it, line 1: there is no field '" + key + "'");
    changed[key] = nullptr;
    CHECK(error_of(changed).starts_with("it, line 1: '" + key + "' is null; it takes "));
  }
}

// The line of a sound episode, cut anywhere or with a bit flipped, is refused in one short line or replayed. Of a long
// one cuts are `cut_every` bytes apart.
inline void check_damaged(const std::string& whole, std::mt19937_64& random, int flips = 5'000,
                          std::size_t cut_every = 1) {
  REQUIRE(error_of(whole) == "");
  for (std::size_t length = 1; length < whole.size(); length += cut_every)
    REQUIRE(error_of(whole.substr(0, length)).starts_with("it, line 1: not JSON"));
  int refused = 0;
  for (int i = 0; i < flips; ++i) {
    const std::string message = error_of(flipped_bit(whole, random));
    refused += message.empty() ? 0 : 1;
    REQUIRE(message.size() <= kMaxErrorBytes);
    for (const char byte : message) REQUIRE(static_cast<unsigned char>(byte) >= 0x20);
  }
  CHECK(refused > flips / 10);
}
// Of episode_of(task) for each of the tasks.
template <class EpisodeOf>
void check_damaged_of(const std::vector<std::string>& tasks, const EpisodeOf& episode_of) {
  std::mt19937_64 random(1);
  for (const std::string& task : tasks) {
    CAPTURE(task);
    check_damaged(episode_of(task).dump(), random);
  }
}

}  // namespace engram::testing
