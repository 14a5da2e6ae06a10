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

void play_episodes(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                   const std::function<bool()>& interrupted,
                   const std::function<void(const std::vector<RecordedEpisode>&)>& take) {
  if (episodes < 1) throw std::invalid_argument("an evaluation of " + std::to_string(episodes) + " episodes");
  const EvaluationMode evaluation_mode(rollout.policy().network());
  const int size = rollout.size();
  rollout.restart(first_episode);
  rollout.draw_from(evaluation_actions(first_episode));

  std::vector<int> quota_N(static_cast<std::size_t>(size));
  for (int row = 0; row < size; ++row)
    quota_N[static_cast<std::size_t>(row)] = episodes / size + (row < episodes % size ? 1 : 0);
  int missing = episodes;
  while (missing > 0 && !interrupted()) {
    std::vector<RecordedEpisode> taken;
    for (const RecordedEpisode& episode : rollout.play(choice).episodes) {
      int& quota = quota_N[static_cast<std::size_t>(episode.environment)];
      if (quota == 0) continue;
      taken.push_back(episode);
      --quota;
      --missing;
    }
    if (!taken.empty()) take(taken);
  }
}

std::vector<EpisodeResult> evaluate(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                                    const std::function<bool()>& interrupted) {
  std::vector<std::vector<EpisodeResult>> played_N(static_cast<std::size_t>(rollout.size()));
  play_episodes(rollout, episodes, choice, first_episode, interrupted, [&](const std::vector<RecordedEpisode>& taken) {
    for (const RecordedEpisode& episode : taken)
      played_N[static_cast<std::size_t>(episode.environment)].push_back(
          {episode.total_reward, episode.success != 0, episode.steps});
  });

  std::vector<EpisodeResult> results;
  for (const auto& played : played_N) results.insert(results.end(), played.begin(), played.end());
  return results;
}

}  // namespace engram
