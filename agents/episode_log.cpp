#include "agents/episode_log.h"

#include <limits>
#include <utility>

namespace engram {
namespace {

void append_observation(const VecEnv& environments, int row, Episode& episode) {
  const auto bytes = static_cast<std::size_t>(environments.info().observation.bytes());
  const auto observation = environments.observation_N().subspan(row * bytes, bytes);
  episode.observations.insert(episode.observations.end(), observation.begin(), observation.end());
}

}  // namespace

void EpisodeLog::add(std::int32_t environment, std::uint32_t number, std::span<const std::int32_t> actions) {
  environment_.push_back(environment);
  number_.push_back(number);
  steps_.push_back(static_cast<std::int64_t>(actions.size()));
  action_.insert(action_.end(), actions.begin(), actions.end());
}

void EpisodeLog::visit_state(StateArchive& archive) {
  archive.array("environment", environment_);
  archive.array("number", number_);
  archive.array("steps", steps_);
  archive.array("action", action_);
  if (!archive.restoring()) return;
  if (number_.size() != environment_.size() || steps_.size() != environment_.size())
    archive.refuse("steps", "it has another length than environment or number");
  std::size_t left = action_.size();
  for (const std::int64_t steps : steps_) {
    if (steps < 0 || static_cast<std::uint64_t>(steps) > left) archive.refuse("steps", "there are fewer actions");
    left -= static_cast<std::size_t>(steps);
  }
  if (left > 0) archive.refuse("steps", "there are more actions");
}

void EpisodeLog::play(VecEnv& environments, Ends ends, const StateArchive& archive,
                      const std::function<void(Episode)>& use) const {
  const std::int32_t* action = action_.data();
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (number_[i] < 0 || number_[i] > std::numeric_limits<std::uint32_t>::max())
      archive.refuse("number", "there is no episode " + std::to_string(number_[i]));
    Episode episode;
    episode.environment = environment_[i];
    episode.number = static_cast<std::uint32_t>(number_[i]);
    episode.actions.assign(action, action + steps_[i]);
    action += steps_[i];
    const int row = episode.environment;
    try {
      environments.reset_row(row, episode.number);
      append_observation(environments, row, episode);
      for (const std::int32_t taken : episode.actions) {
        environments.step_row(row, taken);
        episode.rewards.push_back(environments.reward_N()[row]);
        append_observation(environments, row, episode);
      }
    } catch (const std::invalid_argument& error) {
      archive.refuse("action", std::string("it does not fit the rules: ") + error.what());
    }
    episode.end = environments.end_N()[row];
    episode.success = environments.success_N()[row] != 0;
    if ((episode.end == End::kNone) == (ends == Ends::kAll))
      archive.refuse("action", "the rules end an episode elsewhere than it did");
    use(std::move(episode));
  }
}

}  // namespace engram
