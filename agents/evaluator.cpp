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

namespace {

// Puts the policy's network into the mode of evaluation, and back as it was.
class EvaluationMode {
 public:
  EvaluationMode(Rollout& rollout, std::uint32_t first_episode)
      : rollout_(rollout), network_(rollout.policy().network()), was_training_(network_.is_training()) {
    network_.train(rollout.evaluates_with_dropout());
    if (!rollout.evaluates_with_dropout()) return;
    rollout.run([&] {
      torch::Tensor seed_tick = network_.dropout_seed_tick(rollout.device());
      training_draws_ = seed_tick.clone();
      seed_tick.select(0, 0).bitwise_not_().bitwise_xor_(std::int64_t{first_episode} << 32);
      seed_tick.select(0, 1).zero_();
    });
  }
  ~EvaluationMode() {
    network_.train(was_training_);
    if (!training_draws_.defined()) return;
    try {
      rollout_.run([&] { network_.dropout_seed_tick(rollout_.device()).copy_(training_draws_); });
    } catch (const c10::Error&) {  // of a device that has failed, which who waits for it next is told
    }
  }
  EvaluationMode(const EvaluationMode&) = delete;
  EvaluationMode& operator=(const EvaluationMode&) = delete;

 private:
  Rollout& rollout_;
  AgentNetwork& network_;
  bool was_training_;
  torch::Tensor training_draws_;  // seed and tick
};

}  // namespace

void play_episodes(Rollout& rollout, int episodes, ActionChoice choice, std::uint32_t first_episode,
                   const std::function<bool()>& interrupted,
                   const std::function<void(const std::vector<RecordedEpisode>&)>& take) {
  if (episodes < 1) throw std::invalid_argument("an evaluation of " + std::to_string(episodes) + " episodes");
  const EvaluationMode evaluation_mode(rollout, first_episode);
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
