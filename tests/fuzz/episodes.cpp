#include <fstream>
#include <map>
#include <sstream>

#include "envs/episode_file.h"
#include "tests/fuzz/target.h"

namespace engram {

// The shortest golden episode of every task.
std::vector<std::string> fuzz_seeds() {
  std::map<std::string, std::string> shortest;
  for (const char* const task :
       {"visual_match", "key_to_door", "tmaze", "repeat_first", "repeat_previous", "autoencode", "count_recall",
        "memory_chain", "umbrella_chain", "minigrid_memory", "red_blue_doors", "door_key"})
    shortest[task];
  for (const char* const golden : {"episodes", "popgym", "bsuite", "minigrid"}) {
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
  return seeds;
}

}  // namespace engram

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace engram;
  take_or_refuse([&] {
    std::istringstream stream(std::string(reinterpret_cast<const char*>(data), size));
    const EpisodeFileReport report = replay_episodes(stream, "it");
    require(report.episodes > 0 && report.mismatches <= report.episodes, "a report that does not add up");
    require((report.mismatches == 0) == report.first_mismatch.empty(), "a mismatch without a reason");
  });
  return 0;
}
