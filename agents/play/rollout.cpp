#include "agents/play/rollout.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>

#include "agents/act/make_policy.h"
#include "agents/study/episode_log.h"
#include "base/error.h"

namespace engram {
namespace {

// One for each way in which a rollout's graphs differ.
int kind_of(ActionChoice choice, bool training) { return 2 * static_cast<int>(choice) + (training ? 1 : 0); }

}  // namespace

Rollout::Rollout(std::unique_ptr<RecordedEnv> environments, std::unique_ptr<Policy> policy, bool evaluates_with_dropout)
    : environments_(std::move(environments)),
      policy_(std::move(policy)),
      work_(environments_->device()),
      evaluates_with_dropout_(evaluates_with_dropout) {
  restart(0);
}

void Rollout::restart(std::uint32_t first_episode) {
  restart(std::vector<std::uint32_t>(static_cast<std::size_t>(size()), first_episode));
}

void Rollout::restart(std::vector<std::uint32_t> number_N) {
  number_N_ = std::move(number_N);
  begin_running();
}

void Rollout::abandon_running() {
  const std::span<const std::int32_t> steps_N = recording().steps_N();
  if (std::ranges::all_of(steps_N, [](std::int32_t steps) { return steps == 0; })) return;
  for (std::size_t i = 0; i < number_N_.size(); ++i) number_N_[i] += steps_N[i] > 0;
  begin_running();
}

void Rollout::begin_running() {
  work_.run([&] {
    environments_->restart(number_N_);
    environments_->recording().look();
  });
}

int Rollout::steps_to_look() const {
  const int most = between_looks(device());
  const std::span<const std::int32_t> steps_N = recording().steps_N();
  const bool together = std::ranges::all_of(steps_N, [&](std::int32_t steps) { return steps == steps_N[0]; });
  return together ? std::min(most, info().max_episode_steps - steps_N[0]) : most;
}

Rollout::Played Rollout::look(int steps) {
  Played played{steps, environments_->unrecorded_steps(), environments_->recording().look()};
  for (const RecordedEpisode& episode : played.episodes) number_N_[episode.environment] = episode.number + 1;
  if (!played.episodes.empty() && policy_->diverged())
    throw DivergedError("the policy's action probabilities are not finite: training has diverged");
  return played;
}

Rollout::Played Rollout::play(ActionChoice choice) {
  const int steps = steps_to_look();
  Played played;
  work_.run([&] {
    policy_->refresh_weights();
    work_.repeat(kind_of(choice, policy_->network().is_training()), steps, [&](int count) {
      const auto products = policy_->compute_in();  // casts of weights serve all steps
      for (int i = 0; i < count; ++i) {
        policy_->act(environments_->rows(), choice);
        environments_->step(policy_->probabilities_NA());
      }
    });
    played = look(steps);
  });
  return played;
}

Rollout::Played Rollout::play_random(Rng& random) {
  const int steps = steps_to_look();
  const std::int64_t words = info().action.words();
  const torch::Tensor action_TN = torch::empty({steps, size() * words}, torch::kInt32);
  for (std::int64_t at = 0; at < action_TN.numel(); at += words)
    draw_action(info().action, random, action_TN.data_ptr<std::int32_t>() + at);
  Played played;
  work_.run([&] {
    const torch::Tensor on_device_TN = action_TN.to(device());
    torch::Tensor action_N = environments_->rows().action_N;
    for (int t = 0; t < steps; ++t) {
      action_N.copy_(on_device_TN[t].view_as(action_N));
      environments_->step();
    }
    played = look(steps);
  });
  return played;
}

void Rollout::draw_from(std::uint32_t stream) {
  work_.run([&] { policy_->draw_from(stream); });
}

// The episodes that were under way, step by step.
void Rollout::play_running(const EpisodeLog& log, const StateArchive& archive) {
  ActingRows rows = environments_->rows();
  const std::size_t size = number_N_.size(), words = static_cast<std::size_t>(info().action.words());
  std::int64_t longest = 0;
  for (std::size_t i = 0; i < size; ++i) longest = std::max(longest, log.steps(i));
  // Between two looks no more than so many may be recorded.
  for (std::int64_t t = 0; t < longest; ++t) {
    torch::Tensor action_N = torch::full(rows.action_N.sizes(), kNoAction, torch::kInt32);
    for (std::size_t i = 0; i < size; ++i)
      if (t < log.steps(i))
        std::ranges::copy(log.actions(i).subspan(static_cast<std::size_t>(t) * words, words),
                          action_N.data_ptr<std::int32_t>() + i * words);
    rows.action_N.copy_(action_N);
    environments_->step();
    if (!environments_->recording().look().empty())
      archive.refuse("running.action", "the rules end an episode elsewhere than it did");
  }
  if (log.keeps_log_probs()) {
    std::vector<RecordingMemory::Taken> running_N(size);
    for (std::size_t i = 0; i < size; ++i)
      running_N[i].log_probs.assign(log.log_probs(i).begin(), log.log_probs(i).end());
    environments_->recording().put_log_probs(running_N);
  }
}

void Rollout::visit_state(StateArchive& archive) {
  const TaskInfo& task = info();
  ActingRows rows = environments_->rows();
  const std::size_t size = number_N_.size();
  work_.run([&] {
    EpisodeLog log(task.action);
    if (!archive.restoring()) {
      const std::vector<RecordingMemory::Taken> running_N = recording().running();
      for (std::size_t i = 0; i < size; ++i)
        log.add(static_cast<std::int32_t>(i), number_N_[i], running_N[i].actions, running_N[i].log_probs);
    }
    archive.within("running", [&] { log.visit_state(archive); });
    if (archive.restoring()) {
      log.check_running(archive, task, size);
      const bool again = environments_->plays_again();
      for (std::size_t i = 0; i < size; ++i)
        number_N_[i] = static_cast<std::uint32_t>(log.number(i)) + (!again && log.steps(i) > 0 ? 1 : 0);
      environments_->restart(number_N_);
      if (again) play_running(log, archive);
      environments_->recording().look();
    }
    archive.within("policy", [&] {
      archive.tensor("fresh", rows.fresh_N);
      archive.tensor("action", rows.action_N);
      policy_->visit_state(archive, task.max_episode_steps);
    });
    if (!archive.restoring()) return;
    if (!environments_->plays_again()) rows.fresh_N.fill_(1);
    const torch::Tensor actions = rows.action_N.cpu();
    if (!are_actions(task.action, {actions.const_data_ptr<std::int32_t>(), static_cast<std::size_t>(actions.numel())}))
      archive.refuse("policy.action", "a number is not an action");
  });
}

std::unique_ptr<Rollout> make_rollout(const Config& config, std::shared_ptr<AgentNetwork> network,
                                      std::unique_ptr<RecordedEnv> environments, MemorySpan span,
                                      std::uint32_t first_environment) {
  const torch::Device device = environments->device();
  const int num_envs = environments->size();
  return std::make_unique<Rollout>(std::move(environments),
                                   make_policy(config, std::move(network), device, num_envs, span, first_environment),
                                   config.evaluation.dropout);
}

std::unique_ptr<Rollout> make_rollout(const Config& config, std::shared_ptr<AgentNetwork> network, torch::Device device,
                                      Purpose purpose, int num_envs, int threads, MemorySpan span,
                                      std::uint32_t first_environment) {
  const int between_looks = Rollout::between_looks(device);
  auto environments =
      device.is_cuda()
          ? make_recorded_cuda_env(config.task, config.run.seed, purpose, num_envs, between_looks, first_environment)
          : make_recorded_env(make_cpu_vec_env(config.task, config.run.seed, purpose, num_envs,
                                               worthwhile_threads(num_envs, threads), first_environment),
                              between_looks);
  return make_rollout(config, std::move(network), std::move(environments), span, first_environment);
}

}  // namespace engram
