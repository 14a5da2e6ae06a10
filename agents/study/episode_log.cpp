#include "agents/study/episode_log.h"

#include <cstddef>
#include <limits>
#include <stdexcept>
#include <string>
#include <utility>

namespace engram {
namespace {

void append_observation(const VecEnv& environments, int row, Episode& episode) {
  const auto bytes = static_cast<std::size_t>(environments.info().observation.bytes());
  const auto observation = environments.observation_N().subspan(row * bytes, bytes);
  episode.observations.insert(episode.observations.end(), observation.begin(), observation.end());
}

}  // namespace

void EpisodeLog::add(std::int32_t environment, std::uint32_t number, std::span<const std::int32_t> actions,
                     std::span<const float> log_probs) {
  environment_.push_back(environment);
  number_.push_back(number);
  steps_.push_back(static_cast<std::int64_t>(actions.size() / words_));
  first_.push_back(action_.size() / words_);
  action_.insert(action_.end(), actions.begin(), actions.end());
  log_prob_.insert(log_prob_.end(), log_probs.begin(), log_probs.end());
}

void EpisodeLog::visit_state(StateArchive& archive) {
  archive.array("environment", environment_);
  archive.array("number", number_);
  archive.array("steps", steps_);
  archive.array("action", action_);
  if (archive.restoring() ? archive.holds("log_prob") : !log_prob_.empty()) archive.array("log_prob", log_prob_);
  if (!archive.restoring()) return;
  if (number_.size() != environment_.size() || steps_.size() != environment_.size())
    archive.refuse("steps", "it has another length than environment or number");
  if (action_.size() % words_ != 0) archive.refuse("action", "it is not of whole actions");
  const std::size_t actions = action_.size() / words_;
  std::size_t next = 0;
  first_.clear();
  for (const std::int64_t steps : steps_) {
    if (steps < 0 || static_cast<std::uint64_t>(steps) > actions - next)
      archive.refuse("steps", "there are fewer actions");
    first_.push_back(next);
    next += static_cast<std::size_t>(steps);
  }
  if (next < actions) archive.refuse("steps", "there are more actions");
  if (!log_prob_.empty() && log_prob_.size() != actions)
    archive.refuse("log_prob", "it has another length than action");
  for (const std::int64_t number : number_)
    if (number < 0 || number > std::numeric_limits<std::uint32_t>::max())
      archive.refuse("number", "there is no episode " + std::to_string(number));
}

void EpisodeLog::check_running(const StateArchive& archive, const TaskInfo& task, std::size_t num_envs) const {
  if (steps_.size() != num_envs) archive.refuse("running", "it is of another number of environments");
  for (std::size_t i = 0; i < num_envs; ++i) {
    if (environment_[i] != static_cast<std::int32_t>(i)) archive.refuse("running", "an environment is missing");
    if (steps_[i] >= task.max_episode_steps) archive.refuse("running", "an episode is longer than the task allows");
  }
  for (const std::int32_t& word : action_)
    if (!are_actions(task.action, {&word, 1}))
      archive.refuse("running", task.action.continuous() ? "a number of an action is not finite"
                                                         : std::to_string(word) + " is not an action");
}

void EpisodeLog::play(VecEnv& environments, const StateArchive& archive,
                      const std::function<void(Episode)>& use) const {
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    Episode episode;
    episode.environment = environment_[i];
    episode.number = number(i);
    episode.actions.assign(actions(i).begin(), actions(i).end());
    episode.log_probs.assign(log_probs(i).begin(), log_probs(i).end());
    const int row = episode.environment;
    try {
      environments.reset_row(row, episode.number);
      append_observation(environments, row, episode);
      for (std::size_t at = 0; at < episode.actions.size(); at += words_) {
        environments.step_row(row, std::span(episode.actions).subspan(at, words_));
        episode.rewards.push_back(environments.reward_N()[row]);
        append_observation(environments, row, episode);
      }
    } catch (const std::invalid_argument& error) {
      archive.refuse("action", std::string("it does not fit the rules: ") + error.what());
    }
    episode.end = environments.end_N()[row];
    episode.success = environments.success_N()[row] != 0;
    if (episode.end == End::kNone) archive.refuse("action", "the rules end an episode elsewhere than it did");
    use(std::move(episode));
  }
}

}  // namespace engram
