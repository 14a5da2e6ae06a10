#include "agents/play/evaluator.h"

#include <algorithm>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>

#include "agents/study/statistics.h"

namespace engram {
namespace {

// Whether episode `number` of environment `row` was decided by these actions.
bool decided_by(VecEnv& environments, int row, std::uint32_t number, const std::vector<std::int32_t>& action_T) {
  environments.reset_row(row, number);
  const auto words = static_cast<std::size_t>(environments.info().action.words());
  for (std::size_t at = 0; at < action_T.size(); at += words)
    environments.step_row(row, std::span(action_T).subspan(at, words));
  return *environments.decided(row);
}

// How many of an evaluation's episodes environment `row` of `size` plays.
int episodes_of(int row, int size, int episodes) { return episodes / size + (row < episodes % size ? 1 : 0); }

}  // namespace

ModeOfPlay::ModeOfPlay(Rollout& rollout, std::uint32_t first_episode)
    : rollout_(rollout), network_(rollout.policy().network()), mode_(network_, rollout.evaluates_with_dropout()) {
  if (!rollout.evaluates_with_dropout()) return;
  rollout.run([&] {
    torch::Tensor seed_tick = network_.dropout_seed_tick(rollout.device());
    training_draws_ = seed_tick.clone();
    seed_tick.select(0, 0).bitwise_not_().bitwise_xor_(std::int64_t{first_episode} << 32);
    seed_tick.select(0, 1).zero_();
  });
}

ModeOfPlay::~ModeOfPlay() {
  if (!training_draws_.defined()) return;
  try {
    rollout_.run([&] { network_.dropout_seed_tick(rollout_.device()).copy_(training_draws_); });
  } catch (const c10::Error&) {  // of a device that has failed, which who waits for it next is told
  }
}

EpisodeResult result_of(const RecordedEpisode& episode) {
  return {episode.total_reward, episode.success != 0, episode.steps};
}

int count_solved(const std::vector<EpisodeResult>& episodes) {
  return static_cast<int>(std::ranges::count_if(episodes, &EpisodeResult::success));
}

PlayedEpisodes summarize(const std::vector<EpisodeResult>& episodes) {
  std::vector<double> returns;
  for (const EpisodeResult& episode : episodes) returns.push_back(episode.total_reward);
  return {static_cast<double>(count_solved(episodes)) / static_cast<double>(episodes.size()), mean_of(returns)};
}

std::optional<DecisionRates> decision_rates(const std::vector<EpisodeResult>& episodes) {
  std::int64_t decided = 0, right = 0;
  for (const EpisodeResult& episode : episodes) {
    if (!episode.decided) return {};
    decided += *episode.decided;
    right += *episode.decided && episode.success;
  }
  if (episodes.empty()) return {};
  const auto rate = [](std::int64_t count, std::size_t of) {
    return static_cast<double>(count) / static_cast<double>(of);
  };
  DecisionRates rates{rate(decided, episodes.size()), {}};
  if (decided > 0) rates.right = rate(right, static_cast<std::size_t>(decided));
  return rates;
}

void play_episodes(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                   const std::function<bool()>& interrupted,
                   const std::function<void(const std::vector<RecordedEpisode>&)>& take) {
  if (episodes < 1) throw std::invalid_argument("an evaluation of " + std::to_string(episodes) + " episodes");
  const ModeOfPlay mode(rollout, first_episode);
  const int size = rollout.size();
  rollout.restart(first_episode);
  rollout.draw_from(evaluation_actions(first_episode));

  std::vector<int> quota_N;
  for (int row = 0; row < size; ++row) quota_N.push_back(episodes_of(row, size, episodes));
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
                                    const std::function<bool()>& interrupted, VecEnv* decisions) {
  if (decisions != nullptr && decisions->size() < rollout.size())
    throw std::invalid_argument("decisions of " + std::to_string(rollout.size()) + " environments told by " +
                                std::to_string(decisions->size()));
  const bool tells = decisions != nullptr && decisions->decided(0).has_value();
  std::vector<std::vector<EpisodeResult>> played_N(static_cast<std::size_t>(rollout.size()));
  play_episodes(rollout, episodes, choice, first_episode, interrupted, [&](const std::vector<RecordedEpisode>& taken) {
    std::vector<std::vector<std::int32_t>> actions;
    if (tells) rollout.run([&] { actions = rollout.recording().actions(taken); });
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const RecordedEpisode& episode = taken[i];
      EpisodeResult result = result_of(episode);
      if (tells) result.decided = decided_by(*decisions, episode.environment, episode.number, actions[i]);
      played_N[static_cast<std::size_t>(episode.environment)].push_back(result);
    }
  });

  std::vector<EpisodeResult> results;
  for (const auto& played : played_N) results.insert(results.end(), played.begin(), played.end());
  return results;
}

std::vector<EpisodeResult> by_number(const std::vector<EpisodeResult>& results) {
  const auto episodes = static_cast<int>(results.size());
  const int size = evaluation_envs(episodes);
  std::vector<std::size_t> first_N;  // of each environment's results
  std::size_t first = 0;
  for (int row = 0; row < size; ++row) {
    first_N.push_back(first);
    first += static_cast<std::size_t>(episodes_of(row, size, episodes));
  }
  std::vector<EpisodeResult> ordered;
  for (std::uint32_t index = 0; index < results.size(); ++index) {
    const auto [environment, number] = evaluation_episode(index);
    ordered.push_back(results[first_N[environment] + number]);
  }
  return ordered;
}

}  // namespace engram
