#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "envs/recorded/episode_file.h"
#include "envs/recorded/played_episode.h"
#include "envs/vec/vec_env.h"
#include "tests/fuzz/target.h"

namespace engram {

// An episode of any task, drawn from its stream of random numbers, cut short.
std::string played(const std::string& task) {
  PlayedEpisode episode{TaskConfig(task)};
  const auto env = make_cpu_vec_env(episode.task, episode.seed, episode.purpose, 1, 1);
  for (int t = 0;; ++t) {
    episode.observations.insert(episode.observations.end(), env->observation_N().begin(), env->observation_N().end());
    if (t == 3) return played_episode_line(episode);
    env->step_row(0, t);
    episode.actions.push_back(t);
    episode.rewards.push_back(env->reward_N()[0]);
  }
}

// The shortest golden episode of every task.
std::vector<std::string> fuzz_seeds() {
  std::map<std::string, std::string> shortest;
  for (const char* const task :
       {"visual_match",     "key_to_door",       "tmaze",         "repeat_first",      "repeat_previous",
        "autoencode",       "count_recall",      "concentration", "multiarmed_bandit", "higher_lower",
        "minesweeper",      "battleship",        "memory_chain",  "umbrella_chain",    "minigrid_memory",
        "red_blue_doors",   "door_key",          "cartpole",      "dark_key_to_door",  "endless_tmaze",
        "labyrinth_escape", "labyrinth_explore", "mortar_mayhem", "mystery_path"})
    shortest[task];
  for (const char* const golden : {"episodes", "popgym", "bsuite", "minigrid", "cartpole", "dark_key_to_door",
                                   "endless_tmaze", "labyrinth", "memory_gym"}) {
    std::ifstream file(std::string(ENGRAM_SOURCE_DIR "/tests/golden/") + golden + ".jsonl");
    for (std::string line; std::getline(file, line);)
      for (auto& [task, seed] : shortest)
        if (line.find("\"" + task + "\"") != std::string::npos && (seed.empty() || line.size() < seed.size()))
          seed = line;
  }
  std::vector<std::string> seeds;
  for (const auto& [task, line] : shortest) {
    require(!line.empty(), "no golden episode of " + task);
    seeds.push_back(line + "\n");
  }
  for (const char* const task : {"tmaze", "minigrid_memory"}) seeds.push_back(played(task) + "\n");
  return seeds;
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(text_of(data, size));
    const EpisodeFileReport report = replay_episodes(stream, "it");
    require(report.episodes > 0 && report.mismatches <= report.episodes, "a report that does not add up");
    require((report.mismatches == 0) == report.first_mismatch.empty(), "a mismatch without a reason");
  });
  return 0;
}
