#include "agents/study/trace.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <ranges>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/act/observation_tensor.h"

namespace engram {
namespace {

torch::Tensor observation_tensor(const VecEnv& environments, std::size_t row) {
  const ObservationSpec& spec = environments.info().observation;
  const auto bytes = static_cast<std::size_t>(spec.bytes());
  const torch::Tensor tensor = torch::empty(spec.shape(), observation_dtype(spec));
  std::memcpy(tensor.data_ptr(), environments.observation_N().data() + row * bytes, bytes);
  return tensor;
}

// The rows of one episode.
struct TracedEpisode {
  std::vector<std::int32_t> action_T;  // rows, as they were played
  EpisodeResult result;
  std::vector<torch::Tensor> observations = {}, features = {}, probabilities = {}, values = {};
  std::vector<float> rewards = {};
  torch::Tensor final_observation = {};
  End end = End::kNone;
};

// By environment, in the order in which each plays them.
using Traced = std::vector<std::vector<TracedEpisode>>;

// Takes the recorded actions again, all environments in lockstep as when they were played, and keeps what is seen and
// computed on the way. What an environment did behind its last episode nobody asks.
void play_again(VecEnv& environments, ShownPolicy& policy, std::uint32_t first_episode, Traced& traced_N,
                const std::function<void()>& between_steps) {
  const auto size = static_cast<std::size_t>(environments.size());
  environments.reset_all(first_episode);
  std::vector<std::size_t> done_N(size);  // episodes
  const auto running = [&](std::size_t row) {
    return done_N[row] < traced_N[row].size() ? &traced_N[row][done_N[row]] : nullptr;
  };
  for (std::size_t row = 0; row < size; ++row) policy.begin_episode(row);
  const auto is_behind = [&](std::size_t row) { return running(row) == nullptr; };
  const auto words = static_cast<std::size_t>(environments.info().action.words());
  std::vector<std::int32_t> action_N(size * words);
  while (!std::ranges::all_of(std::views::iota(std::size_t{0}, size), is_behind)) {
    between_steps();
    for (std::size_t row = 0; row < size; ++row) {
      const TracedEpisode* const episode = running(row);
      for (std::size_t i = 0; i < words; ++i)
        action_N[row * words + i] = episode == nullptr ? 0 : episode->action_T.at(episode->rewards.size() * words + i);
    }
    const ShownPolicy::Step step = policy.follow(action_N);
    for (std::size_t row = 0; row < size; ++row) {
      TracedEpisode* const episode = running(row);
      if (episode == nullptr) continue;
      const auto of_row = [row](const torch::Tensor& x_NX) { return x_NX[static_cast<std::int64_t>(row)].clone(); };
      episode->observations.push_back(observation_tensor(environments, row));
      episode->features.push_back(of_row(step.features_ND));
      episode->probabilities.push_back(of_row(step.probabilities_NA));
      episode->values.push_back(of_row(step.value_NK));
    }
    environments.step(action_N);
    for (std::size_t row = 0; row < size; ++row) {
      TracedEpisode* const episode = running(row);
      const End end = environments.end_N()[row];
      if (episode != nullptr) {
        episode->rewards.push_back(environments.reward_N()[row]);
        if (end != End::kNone) {
          episode->final_observation = observation_tensor(environments, row);
          episode->end = end;
          episode->result.decided = environments.decided(static_cast<int>(row));
          ++done_N[row];
        }
      }
      if (end != End::kNone) policy.begin_episode(row);
    }
    environments.reset_finished();
  }
}

// What the policy drew from at M moments, and what it did.
TensorMap action_tensors(const ActionSpec& spec, const torch::Tensor& probabilities_MX,
                         const std::vector<std::int32_t>& actions) {
  const torch::Tensor rows = torch::tensor(actions, torch::kInt32);
  if (!spec.continuous()) return {{"action_probabilities", probabilities_MX}, {"actions", rows}};
  const std::int64_t numbers = spec.words();
  return {{"action_means", probabilities_MX.narrow(1, 0, numbers).clone()},
          {"action_deviations", probabilities_MX.narrow(1, numbers, numbers).exp()},
          {"actions", numbers_of(rows).view({-1, numbers})}};
}

TensorMap tensors_of(const Traced& traced_N, const ActionSpec& spec, int episodes, bool values_are_of_actions) {
  std::vector<torch::Tensor> observations, features, probabilities, values, final_observations;
  std::vector<std::int32_t> actions;
  std::vector<float> rewards;
  std::vector<std::int64_t> starts;
  std::vector<std::uint8_t> ends, successes;
  const auto append = [](auto& to, const auto& from) { to.insert(to.end(), from.begin(), from.end()); };
  for (int index = 0; index < episodes; ++index) {
    const auto [environment, number] = evaluation_episode(static_cast<std::uint32_t>(index));
    const TracedEpisode& episode = traced_N.at(environment).at(number);
    starts.push_back(static_cast<std::int64_t>(rewards.size()));
    append(observations, episode.observations);
    append(features, episode.features);
    append(probabilities, episode.probabilities);
    append(values, episode.values);
    append(actions, episode.action_T);
    append(rewards, episode.rewards);
    final_observations.push_back(episode.final_observation);
    ends.push_back(static_cast<std::uint8_t>(episode.end));
    successes.push_back(episode.result.success ? 1 : 0);
  }
  const torch::Tensor value_MK = torch::stack(values);
  TensorMap tensors{{"observations", torch::stack(observations)},
                    {"features", torch::stack(features)},
                    values_are_of_actions ? TensorMap::value_type{"q_values", value_MK}
                                          : TensorMap::value_type{"values", value_MK.squeeze(1)},
                    {"rewards", torch::tensor(rewards, torch::kFloat32)},
                    {"episode_starts", torch::tensor(starts, torch::kInt64)},
                    {"final_observations", torch::stack(final_observations)},
                    {"episode_ends", torch::tensor(ends, torch::kUInt8)},
                    {"successes", torch::tensor(successes, torch::kUInt8)}};
  tensors.merge(action_tensors(spec, torch::stack(probabilities), actions));
  return tensors;
}

}  // namespace

Trace record_trace(Rollout& rollout, VecEnv& environments, ShownPolicy& policy, int episodes, ActionChoice choice,
                   std::uint32_t first_episode, const std::function<void()>& between_steps) {
  if (environments.size() != rollout.size() || rollout.size() != evaluation_envs(episodes))
    throw std::invalid_argument("a trace of " + std::to_string(episodes) + " episodes in " +
                                std::to_string(rollout.size()) + " environments that are played again in " +
                                std::to_string(environments.size()));
  Traced traced_N(static_cast<std::size_t>(rollout.size()));
  const auto going_on = [&] {
    between_steps();
    return false;
  };
  play_episodes(rollout, episodes, choice, first_episode, going_on, [&](const std::vector<RecordedEpisode>& taken) {
    std::vector<std::vector<std::int32_t>> actions;
    rollout.run([&] { actions = rollout.recording().actions(taken); });
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const auto row = static_cast<std::size_t>(taken[i].environment);
      traced_N[row].push_back({std::move(actions[i]), result_of(taken[i])});
    }
  });
  {
    const ModeOfPlay mode(rollout, first_episode);  // what dropout drew then it draws again
    play_again(environments, policy, first_episode, traced_N, between_steps);
  }
  Trace trace{tensors_of(traced_N, environments.info().action, episodes, policy.values_are_of_actions()), {}};
  for (const auto& episodes_of_row : traced_N)
    for (const TracedEpisode& episode : episodes_of_row) trace.results.push_back(episode.result);
  return trace;
}

void save_greedy_trace(const std::filesystem::path& file, const TensorMap& tensors, const Config& config) {
  save_safetensors(file, tensors, {{"kind", "trace"}, {"config", config.to_ini()}, {"policy", "greedy"}});
}

}  // namespace engram
