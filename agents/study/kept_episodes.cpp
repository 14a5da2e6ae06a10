#include "agents/study/kept_episodes.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "agents/play/rollout.h"
#include "agents/study/episode_log.h"
#include "storage/tensors/checkpoint.h"

namespace engram {
namespace {

// Room for that many episodes of full length, none of which is dropped.
KeptEpisodes room_for(std::int64_t episodes, std::unique_ptr<VecEnv> environments, torch::Device device) {
  const TaskInfo& task = environments->info();
  const std::int64_t steps = episodes * task.max_episode_steps;
  KeptEpisodes kept;
  kept.store = std::make_unique<EpisodeStore>(
      ReplayOptions{.capacity_steps = steps, .minimum_episodes = episodes, .batch_episodes = 1}, task, steps, device);
  kept.environments = std::move(environments);
  return kept;
}

}  // namespace

KeptEpisodes play_and_keep(const Config& config, const std::shared_ptr<AgentNetwork>& network, torch::Device device,
                           int threads, int episodes, ActionChoice choice, std::uint32_t first_episode) {
  const int num_envs = evaluation_envs(episodes);
  const auto rollout = make_rollout(config, network, device, Purpose::kEvaluation, num_envs, threads);
  KeptEpisodes kept =
      room_for(episodes, make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation, num_envs, 1), device);
  const auto never = [] { return false; };
  play_episodes(*rollout, episodes, choice, first_episode, never, [&](const std::vector<RecordedEpisode>& taken) {
    rollout->run([&] { kept.store->add(rollout->recording(), taken); });
    for (const RecordedEpisode& episode : taken) kept.names.push_back({episode.environment, episode.number});
  });
  return kept;
}

KeptEpisodes keep_replayed(const RunDirectory& run, const Config& config, std::int64_t weights_steps, int most,
                           torch::Device device, const std::function<void(const std::string&)>& warn) {
  std::optional<Checkpoint> checkpoint = load_newest_checkpoint(run.checkpoints_folder(), warn);
  if (!checkpoint) return {};
  StateArchive& state = checkpoint->state;
  const ActionSpec action = config.task.info().action;
  EpisodeLog log(action);
  // As a run's state lists its replay (Trainer).
  state.within("experience", [&] { state.within("replay", [&] { log.visit_state(state); }); });

  // The newest ended no later than the checkpoint was written, and every one before the steps of those after it. Of
  // several ranks these are the first one's; the others have taken as many steps.
  std::int64_t learnt = log.episodes(), ended = checkpoint->steps, ranks = 1;
  if (state.holds("ranks")) state.value("ranks", ranks);
  while (learnt > 0 && ended > weights_steps) ended -= ranks * log.steps(static_cast<std::size_t>(--learnt));
  const std::int64_t chosen = std::min<std::int64_t>(learnt, most);
  if (chosen == 0) return {};
  EpisodeLog some(action);
  for (std::int64_t i = 0; i < chosen; ++i) {
    const auto episode = static_cast<std::size_t>(i * learnt / chosen);
    some.add(log.environment(episode), log.number(episode), log.actions(episode));
  }
  KeptEpisodes kept = room_for(
      chosen, make_cpu_vec_env(config.task, config.run.seed, Purpose::kTraining, config.run.num_envs, 1), device);
  some.play(*kept.environments, state, [&kept](const Episode& episode) {
    kept.store->add(episode);
    kept.names.push_back({episode.environment, episode.number});
  });
  return kept;
}

}  // namespace engram
