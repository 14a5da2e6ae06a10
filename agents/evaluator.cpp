#include "agents/evaluator.h"

#include <algorithm>
#include <stdexcept>
#include <string>

#include "agents/statistics.h"

namespace engram {

int count_solved(const std::vector<EpisodeResult>& episodes) {
  return static_cast<int>(std::ranges::count_if(episodes, &EpisodeResult::success));
}

PlayedEpisodes summarize(const std::vector<EpisodeResult>& episodes) {
  std::vector<double> returns;
  for (const EpisodeResult& episode : episodes) returns.push_back(episode.total_reward);
  return {static_cast<double>(count_solved(episodes)) / static_cast<double>(episodes.size()), mean_of(returns)};
}

std::vector<EpisodeResult> evaluate(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                                    const std::function<bool()>& interrupted) {
  if (episodes < 1) throw std::invalid_argument("an evaluation of " + std::to_string(episodes) + " episodes");
  const EvaluationMode evaluation_mode(rollout.policy().network());
  const int size = rollout.size();
  rollout.restart(first_episode);
  rollout.draw_from(evaluation_actions(first_episode));

  std::vector<std::vector<EpisodeResult>> played_N(static_cast<std::size_t>(size));
  const auto quota = [&](int row) { return static_cast<std::size_t>(episodes / size + (row < episodes % size)); };
  int missing = episodes;
  while (missing > 0 && !interrupted())
    for (const RecordedEpisode& episode : rollout.play(choice).episodes) {
      auto& played = played_N[static_cast<std::size_t>(episode.environment)];
      if (played.size() == quota(episode.environment)) continue;
      played.push_back({episode.total_reward, episode.success != 0, episode.steps});
      --missing;
    }

  std::vector<EpisodeResult> results;
  for (const auto& played : played_N) results.insert(results.end(), played.begin(), played.end());
  return results;
}

}  // namespace engram
