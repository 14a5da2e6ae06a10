#include "agents/experience.h"

#include <algorithm>
#include <utility>

#ifdef ENGRAM_WITH_CUDA
#include "agents/gpu_experience.h"
#endif

namespace engram {

Remembering collecting_memory(const Config& config) {
  return config.run.memoryless_collection ? Remembering::kNothing : Remembering::kEpisode;
}

int evaluation_envs(const Config& config) {
  constexpr int kMaxEvaluationEnvs = 64;
  return std::min(config.evaluation.episodes, kMaxEvaluationEnvs);
}

std::unique_ptr<Experience> make_experience(const Config& config, std::shared_ptr<AgentNetwork> network,
                                            torch::Device device, int threads) {
#ifdef ENGRAM_WITH_CUDA
  if (device.is_cuda() && !GpuExperience::unsupported(config))
    return std::make_unique<GpuExperience>(config, std::move(network), device);
#endif
  return std::make_unique<HostExperience>(config, std::move(network), device, threads);
}

HostExperience::HostExperience(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device,
                               int threads)
    : device_(device),
      batch_episodes_(config.replay.batch_episodes),
      environments_(make_cpu_vec_env(config.task, config.run.seed, Purpose::kTraining, config.run.num_envs,
                                     worthwhile_threads(config.run.num_envs, threads))),
      evaluation_environments_(make_cpu_vec_env(config.task, config.run.seed, Purpose::kEvaluation,
                                                evaluation_envs(config),
                                                worthwhile_threads(evaluation_envs(config), threads))),
      policy_(network, device, config.run.num_envs, config.run.seed, kTrainingActions, collecting_memory(config)),
      evaluation_policy_(network, device, evaluation_envs(config), config.run.seed, evaluation_actions(0)),
      collector_(*environments_, policy_, Rng(config.run.seed, Purpose::kRun, 0, 0)),
      buffer_(config.replay, environments_->info()),
      replay_random_(config.run.seed, Purpose::kReplay, 0, 0) {}

std::int64_t HostExperience::collect(Acting acting, const std::function<void(const EpisodeResult&)>& finished) {
  const auto keep = [&](Episode episode) {
    const EpisodeResult result{episode.total_reward(), episode.success, episode.steps()};
    buffer_.add(std::move(episode));
    finished(result);
  };
  if (acting == Acting::kRandom)
    collector_.step_random(keep);
  else
    collector_.step(keep);
  return environments_->size();
}

EpisodeBatch HostExperience::sample() { return buffer_.sample(batch_episodes_, replay_random_, device_); }

std::vector<EpisodeResult> HostExperience::evaluate(ActionChoice choice, int episodes, std::uint32_t first_episode,
                                                    const std::function<bool()>& interrupted) {
  return engram::evaluate(*evaluation_environments_, evaluation_policy_, episodes, choice, first_episode, interrupted);
}

// The replay first: playing it again moves the environments.
void HostExperience::visit_state(StateArchive& archive) {
  archive.within("replay", [&] { buffer_.visit_state(archive, *environments_); });
  archive.object("replay_random", replay_random_);
  archive.within("collector", [&] { collector_.visit_state(archive); });
}

}  // namespace engram
