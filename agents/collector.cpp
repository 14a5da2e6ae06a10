#include "agents/collector.h"

#include <algorithm>
#include <utility>

#include "agents/episode_log.h"

namespace engram {

Collector::Collector(VecEnv& environments, Policy& policy, Rng random)
    : environments_(environments),
      policy_(policy),
      random_(random),
      running_N_(environments.size()),
      random_N_(environments.size(), 0),
      action_N_(environments.size()) {
  environments_.reset_all();
  policy_.reset_all();
  for (int row = 0; row < environments_.size(); ++row) begin_episode(row, 0);
}

void Collector::begin_episode(int row, std::uint32_t number) {
  running_N_[row] = {};
  running_N_[row].environment = row;
  running_N_[row].number = number;
  append_observation(row);
}

std::int32_t Collector::random_action() {
  return static_cast<std::int32_t>(random_.below(static_cast<std::uint32_t>(environments_.info().num_actions())));
}

void Collector::append_observation(int row) {
  const auto bytes = static_cast<std::size_t>(environments_.info().observation.bytes());
  const auto observation = environments_.observation_N().subspan(row * bytes, bytes);
  auto& observations = running_N_[row].observations;
  observations.insert(observations.end(), observation.begin(), observation.end());
}

void Collector::step(const std::function<void(Episode)>& finished) {
  action_N_ = policy_.act(environments_, ActionChoice::kSample).action_N;
  for (std::size_t row = 0; row < action_N_.size(); ++row)
    if (random_N_[row]) action_N_[row] = random_action();
  advance(finished);
}

void Collector::step_random(const std::function<void(Episode)>& finished) {
  for (std::size_t row = 0; row < action_N_.size(); ++row) {
    action_N_[row] = random_action();
    random_N_[row] = 1;
  }
  advance(finished);
}

void Collector::advance(const std::function<void(Episode)>& finished) {
  environments_.step(action_N_);
  std::vector<Episode> ended;
  for (int row = 0; row < environments_.size(); ++row) {
    Episode& running = running_N_[row];
    running.actions.push_back(action_N_[row]);
    running.rewards.push_back(environments_.reward_N()[row]);
    append_observation(row);
    if (environments_.end_N()[row] == End::kNone) continue;
    running.end = environments_.end_N()[row];
    running.success = environments_.success_N()[row] != 0;
    ended.push_back(std::move(running));
  }
  if (ended.empty()) return;

  environments_.reset_finished();
  for (const Episode& episode : ended) {
    begin_episode(episode.environment, episode.number + 1);
    random_N_[episode.environment] = 0;
    policy_.reset_row(episode.environment);
  }
  for (Episode& episode : ended) finished(std::move(episode));
}

void Collector::visit_state(StateArchive& archive) {
  archive.object("random", random_);
  archive.array("at_random", random_N_);
  archive.within("policy", [&] { policy_.visit_state(archive, environments_.info().max_episode_steps); });

  EpisodeLog log;
  if (!archive.restoring())
    for (const Episode& episode : running_N_) log.add(episode);
  archive.within("running", [&] { log.visit_state(archive); });
  if (!archive.restoring()) return;
  if (log.episodes() != environments_.size() || static_cast<int>(random_N_.size()) != environments_.size())
    archive.refuse("running", "it is of another number of environments");
  int row = 0;
  log.play(environments_, EpisodeLog::Ends::kNone, archive, [&](Episode episode) {
    if (episode.environment != row) archive.refuse("running", "an environment is missing");
    running_N_[row++] = std::move(episode);
  });
}

}  // namespace engram
