// Rollouts over a few lines of rules on the CPU, and what is recorded of the episodes played.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "agents/play/episode.h"
#include "agents/play/rollout.h"
#include "tests/agents/play/probe_env.h"

namespace engram {

// Environments first_environment .. first_environment + size - 1 of the rules, played by the network's own step.
inline Rollout probe_rollout(const ProbeRules& rules, std::shared_ptr<AgentNetwork> network, int size,
                             std::uint64_t seed = 1, int first_environment = 0, bool evaluates_with_dropout = false) {
  return Rollout(make_recorded_env(std::make_unique<ProbeEnv>(rules, size, seed, first_environment), 1),
                 std::make_unique<NetworkPolicy>(std::move(network), torch::kFloat32, size, seed, MemorySpan::kEpisode,
                                                 torch::kCPU),
                 evaluates_with_dropout);
}

// An ended episode out of its environment's ring, on the CPU.
inline Episode recorded_episode(const RecordingMemory& recording, const RecordedEpisode& ended) {
  const EpisodeRecorder& recorder = recording.view();
  Episode episode;
  episode.end = ended.end;
  episode.success = ended.success != 0;
  episode.environment = ended.environment;
  episode.number = ended.number;
  for (std::int32_t t = 0; t <= ended.steps; ++t) {
    const std::int64_t row = recorded_row(recorder, {ended.environment, ended.first, ended.steps, 0}, t);
    const auto observation =
        std::as_bytes(std::span(recorder.rows.observation_at(row), static_cast<std::size_t>(recorder.rows.row_bytes)));
    episode.observations.insert(episode.observations.end(), observation.begin(), observation.end());
    if (t == ended.steps) break;
    episode.actions.push_back(recorder.rows.action[row]);
    episode.rewards.push_back(recorder.rows.reward[row]);
  }
  return episode;
}

}  // namespace engram
