#include "agents/play/recorded_env.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "agents/act/observation_tensor.h"

namespace engram {
namespace {

torch::Tensor bytes_for(std::int64_t count, std::size_t size, torch::Device device) {
  return torch::zeros({count * static_cast<std::int64_t>(size)}, torch::dtype(torch::kUInt8).device(device));
}

class RecordedCpuEnv final : public RecordedEnv {
 public:
  RecordedCpuEnv(std::unique_ptr<VecEnv> environments, int between_looks)
      : RecordedEnv(environments->info(), environments->size(), between_looks, torch::kCPU),
        environments_(std::move(environments)) {
    rows_ = rows_of(*environments_);
  }

  const TaskInfo& info() const override { return environments_->info(); }

  void step(const torch::Tensor& probabilities_NA) override {
    const int size = environments_->size();
    const float* const probabilities = probabilities_NA.defined() ? probabilities_NA.const_data_ptr<float>() : nullptr;
    const auto words = static_cast<std::size_t>(info().action.words());
    const std::int64_t policy_numbers = info().action.policy_numbers();
    const std::span action_N(rows_.action_N.const_data_ptr<std::int32_t>(), size * words);
    bool all = true;
    for (std::size_t at = 0; at < action_N.size(); at += words) all = all && action_N[at] != kNoAction;
    if (all) environments_->step(action_N);
    bool ended = false;
    for (int i = 0; i < size; ++i) {
      const std::span<const std::int32_t> action = action_N.subspan(i * words, words);
      if (action[0] == kNoAction) continue;
      if (!all) environments_->step_row(i, action);
      const End end = environments_->end_N()[i];
      const float* const own = probabilities == nullptr ? nullptr : probabilities + i * policy_numbers;
      copy_observation(
          i,
          record_step(recording_.view(), i, action.data(), log_probability(recording_.view().rows, own, action.data()),
                      environments_->reward_N()[i], end, environments_->success_N()[i] != 0, number_N_[i]));
      ended = ended || end != End::kNone;
    }
    if (!ended) return;
    for (int i = 0; i < size; ++i) ended_N_[i] = environments_->end_N()[i] != End::kNone;
    environments_->reset_finished();
    for (int i = 0; i < size; ++i)
      if (ended_N_[i]) begin_row(i, number_N_[i] + 1);
  }

 private:
  void begin(std::span<const std::uint32_t> number_N) override {
    number_N_.resize(number_N.size());
    ended_N_.resize(number_N.size());
    for (std::size_t i = 0; i < number_N.size(); ++i) {
      environments_->reset_row(static_cast<int>(i), number_N[i]);
      begin_row(static_cast<int>(i), number_N[i]);
    }
  }
  // The environment has just been reset.
  void begin_row(int i, std::uint32_t number) {
    number_N_[i] = number;
    copy_observation(i, begin_episode(recording_.view(), i));
    rows_.fresh_N.data_ptr<std::uint8_t>()[i] = 1;
  }
  void copy_observation(int i, std::int64_t row) const {
    const EpisodeRows& rows = recording_.view().rows;
    std::memcpy(rows.observation_at(row), environments_->observation_N().data() + i * rows.row_bytes,
                static_cast<std::size_t>(rows.row_bytes));
  }

  std::unique_ptr<VecEnv> environments_;
  std::vector<std::uint32_t> number_N_;
  std::vector<std::uint8_t> ended_N_;
};

}  // namespace

torch::Tensor action_rows(const ActionSpec& action, std::int64_t size, torch::Device device) {
  const auto options = torch::TensorOptions(device).dtype(torch::kInt32);
  return action.continuous() ? torch::zeros({size, action.words()}, options) : torch::zeros({size}, options);
}

ActingRows rows_over(const TaskInfo& task, std::int64_t size, const void* observation_N, const float* reward_N,
                     torch::Device device) {
  const ObservationSpec& observation = task.observation;
  const auto options = torch::TensorOptions(device);
  const auto view = [&](const void* data, const std::vector<std::int64_t>& shape, torch::ScalarType type) {
    return torch::from_blob(const_cast<void*>(data), shape, options.dtype(type));
  };
  return {view(observation_N, observation_shape({size}, observation), observation_dtype(observation)),
          view(reward_N, {size}, torch::kFloat32), torch::ones({size}, options.dtype(torch::kUInt8)),
          action_rows(task.action, size, device)};
}

ActingRows rows_of(const VecEnv& environments) {
  return rows_over(environments.info(), environments.size(), environments.observation_N().data(),
                   environments.reward_N().data(), torch::kCPU);
}

RecordingMemory::RecordingMemory(const TaskInfo& task, int num_envs, int between_looks, torch::Device device) {
  // Between two looks every step may end an episode; one of full length may have begun before.
  const std::int64_t ring = task.max_episode_steps + 2 * (between_looks + std::int64_t{1});
  const auto on_device = torch::TensorOptions(device);
  observation_ = bytes_for(num_envs * ring, static_cast<std::size_t>(task.observation.bytes()), device);
  action_ = torch::zeros({num_envs, ring * task.action.words()}, on_device.dtype(torch::kInt32));
  reward_ = torch::zeros({num_envs, ring}, on_device.dtype(torch::kFloat32));
  log_prob_ = torch::zeros_like(reward_);
  running_ = bytes_for(num_envs, sizeof(RunningEpisode), device);
  ended_ = bytes_for(std::int64_t{num_envs} * between_looks, sizeof(EndedEpisode), device);
  progress_2N_ = torch::zeros({2, num_envs}, on_device.dtype(torch::kInt32));
  seen_2N_ = torch::zeros({2, num_envs}, torch::TensorOptions(torch::kInt32).pinned_memory(device.is_cuda()));
  if (device.is_cuda()) seen_ended_ = torch::empty_like(ended_, torch::TensorOptions(torch::kCPU).pinned_memory(true));
  view_ = {static_cast<std::int32_t>(ring),
           between_looks,
           {task.observation.bytes(), observation_.data_ptr<std::uint8_t>(), action_.data_ptr<std::int32_t>(),
            reward_.data_ptr<float>(), log_prob_.data_ptr<float>()},
           reinterpret_cast<RunningEpisode*>(running_.data_ptr<std::uint8_t>()),
           progress_2N_[0].data_ptr<std::int32_t>(),
           progress_2N_[1].data_ptr<std::int32_t>(),
           reinterpret_cast<EndedEpisode*>(ended_.data_ptr<std::uint8_t>())};
  view_.rows.action_numbers = static_cast<std::int32_t>(task.action.numbers.size());
}

void RecordingMemory::clear() {
  running_.zero_();
  progress_2N_.zero_();
}

std::span<const std::int32_t> RecordingMemory::steps_N() const {
  return {seen_2N_.const_data_ptr<std::int32_t>(), static_cast<std::size_t>(seen_2N_.size(1))};
}

std::vector<RecordedEpisode> RecordingMemory::look() {
  seen_2N_.copy_(progress_2N_);
  const std::int64_t size = seen_2N_.size(1);
  const std::int32_t* const ended_N = seen_2N_.const_data_ptr<std::int32_t>() + size;
  std::vector<RecordedEpisode> episodes;
  if (std::all_of(ended_N, ended_N + size, [](std::int32_t ended) { return ended == 0; })) return episodes;
  if (ended_.is_cuda()) seen_ended_.copy_(ended_);
  const torch::Tensor& bytes = ended_.is_cuda() ? seen_ended_ : ended_;
  const auto* const ended_NE = reinterpret_cast<const EndedEpisode*>(bytes.const_data_ptr<std::uint8_t>());
  for (std::int32_t i = 0; i < size; ++i)
    for (std::int32_t e = 0; e < ended_N[i]; ++e)
      episodes.push_back({ended_NE[std::int64_t{i} * view_.most_ended + e], i});
  progress_2N_[1].zero_();
  return episodes;
}

std::vector<std::vector<std::int32_t>> RecordingMemory::actions(std::span<const RecordedEpisode> episodes) const {
  const torch::Tensor actions = action_.cpu();
  const std::int32_t* const action = actions.const_data_ptr<std::int32_t>();
  const std::int32_t words = view_.rows.action_words();
  std::vector<std::vector<std::int32_t>> all;
  for (const RecordedEpisode& episode : episodes) {
    std::vector<std::int32_t>& own = all.emplace_back();
    for (std::int32_t t = 0; t < episode.steps; ++t) {
      const std::int32_t* const row =
          action + recorded_row(view_, {episode.environment, episode.first, episode.steps, 0}, t) * words;
      own.insert(own.end(), row, row + words);
    }
  }
  return all;
}

template <class Visit>
void RecordingMemory::visit_running(Visit visit) const {
  const torch::Tensor bytes = running_.cpu(), progress = progress_2N_.cpu();
  const auto* const running_N = reinterpret_cast<const RunningEpisode*>(bytes.const_data_ptr<std::uint8_t>());
  for (std::int64_t i = 0; i < progress.size(1); ++i) {
    const std::int32_t steps = progress.const_data_ptr<std::int32_t>()[i];
    for (std::int32_t t = 0, row = running_N[i].first; t < steps; ++t, row = view_.after(row))
      visit(static_cast<std::size_t>(i), static_cast<std::size_t>(t), view_.index(static_cast<int>(i), row));
  }
}

std::vector<RecordingMemory::Taken> RecordingMemory::running() const {
  const torch::Tensor actions = action_.cpu(), log_probs = log_prob_.cpu();
  std::vector<Taken> all(static_cast<std::size_t>(progress_2N_.size(1)));
  visit_running([&](std::size_t i, std::size_t, std::int64_t at) {
    const std::int32_t words = view_.rows.action_words();
    const std::int32_t* const row = actions.const_data_ptr<std::int32_t>() + at * words;
    all[i].actions.insert(all[i].actions.end(), row, row + words);
    all[i].log_probs.push_back(log_probs.const_data_ptr<float>()[at]);
  });
  return all;
}

void RecordingMemory::put_log_probs(std::span<const Taken> running_N) {
  const torch::Tensor log_probs = log_prob_.cpu();
  visit_running([&](std::size_t i, std::size_t t, std::int64_t at) {
    log_probs.data_ptr<float>()[at] = running_N[i].log_probs.at(t);
  });
  log_prob_.copy_(log_probs);
}

void RecordedEnv::restart(std::span<const std::uint32_t> number_N) {
  recording_.clear();
  begin(number_N);
}

std::unique_ptr<RecordedEnv> make_recorded_env(std::unique_ptr<VecEnv> environments, int between_looks) {
  return std::make_unique<RecordedCpuEnv>(std::move(environments), between_looks);
}

}  // namespace engram
