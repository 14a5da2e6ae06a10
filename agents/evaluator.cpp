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

std::vector<EpisodeResult> evaluate(VecEnv& environments, Policy& policy, int episodes, ActionChoice choice,
                                    std::uint32_t first_episode, const std::function<bool()>& interrupted) {
  if (episodes < 1) throw std::invalid_argument("an evaluation of " + std::to_string(episodes) + " episodes");
  const EvaluationMode evaluation_mode(policy.network());
  const int size = environments.size();
  environments.reset_all(first_episode);
  policy.reset_all();
  policy.draw_from(evaluation_actions(first_episode));

  std::vector<std::vector<EpisodeResult>> finished_N(size);
  std::vector<EpisodeResult> running_N(size);
  const auto quota = [&](int row) { return static_cast<std::size_t>(episodes / size + (row < episodes % size)); };
  int missing = episodes;
  while (missing > 0 && !interrupted()) {
    environments.step(policy.act(environments, choice).action_N);
    for (int row = 0; row < size; ++row) {
      EpisodeResult& running = running_N[row];
      running.total_reward += environments.reward_N()[row];
      ++running.steps;
      if (environments.end_N()[row] == End::kNone) continue;
      running.success = environments.success_N()[row] != 0;
      if (finished_N[row].size() < quota(row)) {
        finished_N[row].push_back(running);
        --missing;
      }
      running = {};
      policy.reset_row(row);
    }
    environments.reset_finished();
  }
  policy.reset_all();

  std::vector<EpisodeResult> results;
  for (const auto& finished : finished_N) results.insert(results.end(), finished.begin(), finished.end());
  return results;
}

}  // namespace engram
