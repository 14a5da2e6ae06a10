#include "agents/play/episode_store.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/act/observation_tensor.h"

namespace engram {
namespace {

constexpr std::int64_t kLengthClasses = 8;  // of batches on a GPU
constexpr std::size_t kShapes = 8;          // of batches that are kept

// No more than what is there is dropped.
ReplayOptions keeping(std::int64_t steps) { return {.capacity_steps = steps, .minimum_episodes = 1}; }

}  // namespace

EpisodeStore::EpisodeStore(const ReplayOptions& options, const TaskInfo& task, std::int64_t most_steps,
                           torch::Device device)
    : EpisodeStore(options, task, options.rows(task, most_steps), device, /*on_policy=*/false) {}

// An episode of one step has two rows; one of full length may not fit before the end of the rows.
EpisodeStore EpisodeStore::of_iterations(const TaskInfo& task, std::int64_t most_steps, torch::Device device) {
  return {keeping(most_steps), task, 2 * most_steps + 2 * (task.max_episode_steps + std::int64_t{1}), device,
          /*on_policy=*/true};
}

EpisodeStore::EpisodeStore(const ReplayOptions& options, const TaskInfo& task, std::int64_t rows, torch::Device device,
                           bool on_policy)
    : options_(options), task_(task), device_(device), capacity_rows_(rows) {
  const auto on_device = torch::TensorOptions(device);
  observation_ = torch::empty({capacity_rows_ * task.observation.bytes()}, on_device.dtype(torch::kUInt8));
  action_ = torch::empty({capacity_rows_ * task.action.words()}, on_device.dtype(torch::kInt32));
  reward_ = torch::empty({capacity_rows_}, on_device.dtype(torch::kFloat32));
  rows_ = {task.observation.bytes(), observation_.data_ptr<std::uint8_t>(), action_.data_ptr<std::int32_t>(),
           reward_.data_ptr<float>(), nullptr};
  rows_.action_numbers = static_cast<std::int32_t>(task.action.numbers.size());
  if (!on_policy) return;
  const auto column = [&](torch::Tensor& tensor) {
    tensor = torch::zeros_like(reward_);
    return tensor.data_ptr<float>();
  };
  rows_.log_prob = column(log_prob_);
  rows_.value = column(value_);
  rows_.advantage = column(advantage_);
}

void EpisodeStore::clear() {
  episodes_.clear();
  next_row_ = 0;
  steps_ = 0;
}

void EpisodeStore::drop_oldest() {
  steps_ -= episodes_.front().rows.steps;
  episodes_.pop_front();
}

std::int64_t EpisodeStore::append(std::int32_t steps, End end, std::int32_t environment, std::uint32_t number) {
  const std::int64_t rows = steps + std::int64_t{1}, most_of_one = task_.max_episode_steps + std::int64_t{1};
  const std::int64_t first = next_row_ + rows > capacity_rows_ ? 0 : next_row_;
  next_row_ = first + rows;
  episodes_.push_back({{first, steps, end == End::kTerminated}, environment, number});
  steps_ += steps;
  // What goes depends on what is there alone, not on where it stands: a restored store goes on as it would have. So
  // many rows are left free that, round the end, no kept episode is in the way of the newest.
  const auto too_many = [&] {
    return (steps_ > options_.capacity_steps && episodes() > options_.minimum_episodes) ||
           steps_ + episodes() > capacity_rows_ - most_of_one;
  };
  while (too_many()) drop_oldest();
  return first;
}

void EpisodeStore::add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes) {
  std::vector<KeptEpisode> kept;
  const auto copy = [&] {
    if (device_.is_cuda()) return keep_on_gpu(recording, kept);
    const EpisodeRecorder& recorder = recording.view();
    for (const KeptEpisode& episode : kept)
      for (std::int64_t t = 0; t <= episode.steps; ++t) {
        const std::int64_t from = recorded_row(recorder, episode, t), to = episode.to + t;
        std::memcpy(rows_.observation_at(to), recorder.rows.observation_at(from),
                    static_cast<std::size_t>(rows_.row_bytes));
        rows_.put_action(to, recorder.rows.action_at(from));
        rows_.reward[to] = recorder.rows.reward[from];
        if (rows_.log_prob != nullptr) rows_.log_prob[to] = recorder.rows.log_prob[from];
      }
  };
  std::int64_t rows = 0;
  for (const RecordedEpisode& episode : episodes) {
    // Copies of one launch may not overwrite each other.
    if ((rows += episode.steps + std::int64_t{1}) > capacity_rows_ / 2) {
      copy();
      kept.clear();
      rows = episode.steps + std::int64_t{1};
    }
    kept.push_back({episode.environment, episode.first, episode.steps,
                    append(episode.steps, episode.end, episode.environment, episode.number)});
  }
  if (!kept.empty()) copy();
}

void EpisodeStore::add(const Episode& episode) {
  const std::int64_t steps = episode.steps();
  const auto bytes = static_cast<std::int64_t>(episode.observations.size());
  const bool with_log_probs = log_prob_.defined();
  const std::int64_t words = rows_.action_words();
  if (steps < 1 || steps > task_.max_episode_steps ||
      static_cast<std::int64_t>(episode.actions.size()) != steps * words ||
      (with_log_probs && static_cast<std::int64_t>(episode.log_probs.size()) != steps) ||
      bytes != (steps + 1) * rows_.row_bytes)
    throw std::invalid_argument(
        "an episode of " + std::to_string(episode.actions.size()) +
        (words == 1 ? " actions, " : " actions' numbers, ") + std::to_string(steps) + " rewards, " +
        (with_log_probs ? std::to_string(episode.log_probs.size()) + " log-probabilities " : "") + "and " +
        std::to_string(bytes) + " bytes of observations");
  const std::int64_t first = append(static_cast<std::int32_t>(steps), episode.end, episode.environment, episode.number);
  const auto put = [](const torch::Tensor& to, std::int64_t at, const auto& values, torch::ScalarType type) {
    const auto count = static_cast<std::int64_t>(values.size());
    to.narrow(0, at, count)
        .copy_(torch::from_blob(const_cast<void*>(static_cast<const void*>(values.data())), {count}, type));
  };
  put(observation_, first * rows_.row_bytes, episode.observations, torch::kUInt8);
  put(action_, first * words, episode.actions, torch::kInt32);
  put(reward_, first, episode.rewards, torch::kFloat32);
  if (with_log_probs) put(log_prob_, first, episode.log_probs, torch::kFloat32);
}

EpisodeBatch EpisodeStore::batch_of(std::int64_t batch, std::int64_t steps) {
  if (!device_.is_cuda()) return new_batch(batch, steps);
  const auto found = std::ranges::find_if(batches_, [&](const EpisodeBatch& made) {
    return made.action_BT.size(0) == batch && made.action_BT.size(1) == steps;
  });
  if (found != batches_.end()) {
    batches_.splice(batches_.begin(), batches_, found);
  } else {
    if (batches_.size() == kShapes) batches_.pop_back();
    batches_.push_front(new_batch(batch, steps));
  }
  return batches_.front();
}

EpisodeBatch EpisodeStore::new_batch(std::int64_t batch, std::int64_t steps) const {
  const auto on_device = torch::TensorOptions(device_);
  const auto floats = on_device.dtype(torch::kFloat32), longs = on_device.dtype(torch::kInt64);
  const auto actions = [&](std::int64_t rows) {
    return task_.action.continuous() ? torch::empty({batch, rows, task_.action.words()}, floats)
                                     : torch::empty({batch, rows}, longs);
  };
  EpisodeBatch made{.observation = torch::empty(observation_shape({batch, steps + 1}, task_.observation),
                                                on_device.dtype(observation_dtype(task_.observation))),
                    .previous_action_BT1 = actions(steps + 1),
                    .previous_reward_BT1 = torch::empty({batch, steps + 1}, floats),
                    .action_BT = actions(steps),
                    .reward_BT = torch::empty({batch, steps}, floats),
                    .terminated_BT = torch::empty({batch, steps}, floats),
                    .steps_B = torch::empty({batch}, longs),
                    .mask_BT = torch::empty({batch, steps}, floats)};
  if (log_prob_.defined())
    for (torch::Tensor* column : {&made.log_prob_BT, &made.value_BT, &made.advantage_BT})
      *column = torch::empty({batch, steps}, floats);
  return made;
}

std::vector<std::int64_t> EpisodeStore::draw(Rng& rng) const {
  std::vector<std::int64_t> indices(static_cast<std::size_t>(options_.batch_episodes));
  for (std::int64_t& index : indices) index = rng.below(static_cast<std::uint32_t>(episodes_.size()));
  return indices;
}

EpisodeBatch EpisodeStore::sample(Rng& rng, std::int64_t least_steps) {
  if (episodes_.empty()) throw std::logic_error("a sample of an empty replay");
  return gather(draw(rng), least_steps);
}

std::int64_t EpisodeStore::sampled_steps(Rng rng) const { return episodes_.empty() ? 0 : batch_steps(draw(rng), 1); }

std::int64_t EpisodeStore::batch_steps(const std::vector<std::int64_t>& indices, std::int64_t least_steps) const {
  std::int64_t steps = least_steps;
  for (const std::int64_t index : indices) steps = std::max(steps, steps_of(index));
  if (!device_.is_cuda()) return steps;
  const std::int64_t longest = task_.max_episode_steps, unit = (longest + kLengthClasses - 1) / kLengthClasses;
  return std::min(longest, (steps + unit - 1) / unit * unit);
}

std::vector<StoredEpisode> EpisodeStore::chosen(const std::vector<std::int64_t>& indices) const {
  std::vector<StoredEpisode> chosen;
  for (const std::int64_t index : indices) chosen.push_back(episodes_.at(static_cast<std::size_t>(index)).rows);
  return chosen;
}

EpisodeBatch EpisodeStore::gather(const std::vector<std::int64_t>& indices, std::int64_t least_steps,
                                  std::int64_t least_episodes) {
  return gather_as(indices, batch_steps(indices, least_steps),
                   std::max(least_episodes, static_cast<std::int64_t>(indices.size())));
}

EpisodeBatch EpisodeStore::gather_as(const std::vector<std::int64_t>& indices, std::int64_t steps,
                                     std::int64_t episodes) {
  std::vector<StoredEpisode> rows = chosen(indices);
  rows.resize(static_cast<std::size_t>(episodes));
  EpisodeBatch batch = batch_of(episodes, steps);
  gather_into(batch, rows);
  return batch;
}

void EpisodeStore::put_advantages(const std::vector<std::int64_t>& indices, const torch::Tensor& value_BT,
                                  const torch::Tensor& advantage_BT) {
  const torch::Tensor value = value_BT.contiguous(), advantage = advantage_BT.contiguous();
  const EpisodeAdvantages advantages{static_cast<int>(indices.size()), value.size(1), value.const_data_ptr<float>(),
                                     advantage.const_data_ptr<float>()};
  const std::vector<StoredEpisode> episodes = chosen(indices);
  if (device_.is_cuda()) return put_advantages_on_gpu(advantages, episodes);
  for (std::size_t b = 0; b < episodes.size(); ++b)
    for (std::int64_t t = 0; t < episodes[b].steps; ++t)
      put_advantage(rows_, advantages, episodes[b], static_cast<std::int64_t>(b), t);
}

void EpisodeStore::gather_into(const EpisodeBatch& batch, const std::vector<StoredEpisode>& episodes) const {
  const auto column = [](const torch::Tensor& x) { return x.defined() ? x.data_ptr<float>() : nullptr; };
  const bool continuous = task_.action.continuous();
  const auto integers = [&](const torch::Tensor& x) { return continuous ? nullptr : x.data_ptr<std::int64_t>(); };
  const auto words = [&](const torch::Tensor& x) {
    return continuous ? reinterpret_cast<std::int32_t*>(x.data_ptr<float>()) : nullptr;
  };
  const EpisodeGather gather{.size = static_cast<int>(episodes.size()),
                             .steps = batch.action_BT.size(1),
                             .num_actions = task_.num_actions(),
                             .observation = static_cast<std::uint8_t*>(batch.observation.data_ptr()),
                             .previous_action_BT1 = integers(batch.previous_action_BT1),
                             .previous_reward_BT1 = batch.previous_reward_BT1.data_ptr<float>(),
                             .action_BT = integers(batch.action_BT),
                             .reward_BT = batch.reward_BT.data_ptr<float>(),
                             .terminated_BT = batch.terminated_BT.data_ptr<float>(),
                             .steps_B = batch.steps_B.data_ptr<std::int64_t>(),
                             .mask_BT = batch.mask_BT.data_ptr<float>(),
                             .log_prob_BT = column(batch.log_prob_BT),
                             .value_BT = column(batch.value_BT),
                             .advantage_BT = column(batch.advantage_BT),
                             .previous_words = words(batch.previous_action_BT1),
                             .words = words(batch.action_BT)};
  if (device_.is_cuda()) return gather_on_gpu(gather, episodes);
  for (int b = 0; b < gather.size; ++b) {
    const std::int64_t bytes = (gather.steps + 1) * rows_.row_bytes;
    const StoredEpisode& episode = episodes[static_cast<std::size_t>(b)];
    const std::int64_t valid = (episode.steps + std::int64_t{1}) * rows_.row_bytes;
    std::uint8_t* const to = gather.observation + b * bytes;
    std::memcpy(to, rows_.observation_at(episode.first), static_cast<std::size_t>(valid));
    std::memset(to + valid, 0, static_cast<std::size_t>(bytes - valid));
    for (std::int64_t t = 0; t <= gather.steps; ++t) gather_row(rows_, gather, episode, b, t);
  }
}

void EpisodeStore::visit_state(StateArchive& archive,
                               const std::function<std::unique_ptr<VecEnv>()>& make_environments) {
  EpisodeLog log(task_.action);
  const bool with_log_probs = log_prob_.defined();
  if (!archive.restoring()) {
    const torch::Tensor actions = action_.cpu(), log_probs = with_log_probs ? log_prob_.cpu() : torch::Tensor();
    for (const auto& [rows, environment, number] : episodes_) {
      const auto steps = static_cast<std::size_t>(rows.steps), words = static_cast<std::size_t>(rows_.action_words());
      log.add(
          environment, number, {actions.const_data_ptr<std::int32_t>() + rows.first * words, steps * words},
          with_log_probs ? std::span(log_probs.const_data_ptr<float>() + rows.first, steps) : std::span<const float>());
    }
  }
  log.visit_state(archive);
  if (archive.restoring()) {
    if (with_log_probs && log.episodes() > 0 && !log.keeps_log_probs())
      archive.refuse("log_prob", "the episodes' log-probabilities are missing");
    if (make_environments) keep(log, *make_environments(), archive);
  }
  if (!make_environments) visit_whole_episodes(archive, log);
  if (with_log_probs) visit_advantages(archive);
}

// What a log lacks of episodes that cannot be played again.
void EpisodeStore::visit_whole_episodes(StateArchive& archive, const EpisodeLog& log) {
  std::vector<std::uint8_t> observations, terminated;
  std::vector<float> rewards;
  if (!archive.restoring()) {
    const torch::Tensor observation = observation_.cpu(), reward = reward_.cpu();
    for (const Entry& entry : episodes_) {
      const auto& [first, steps, ends] = entry.rows;
      const std::uint8_t* const from = observation.const_data_ptr<std::uint8_t>() + first * rows_.row_bytes;
      observations.insert(observations.end(), from, from + (steps + std::int64_t{1}) * rows_.row_bytes);
      rewards.insert(rewards.end(), reward.const_data_ptr<float>() + first,
                     reward.const_data_ptr<float>() + first + steps);
      terminated.push_back(ends);
    }
  }
  archive.array("observation", observations);
  archive.array("reward", rewards);
  archive.array("terminated", terminated);
  if (!archive.restoring()) return;

  const auto episodes = static_cast<std::size_t>(log.episodes()), row = static_cast<std::size_t>(rows_.row_bytes);
  std::size_t steps = 0;
  for (std::size_t i = 0; i < episodes; ++i) {
    if (log.steps(i) < 1 || log.steps(i) > task_.max_episode_steps)
      archive.refuse("steps", "an episode has none, or more than the environment allows");
    steps += static_cast<std::size_t>(log.steps(i));
  }
  if (observations.size() != (steps + episodes) * row)
    archive.refuse("observation", "it is not of the episodes' steps");
  if (rewards.size() != steps) archive.refuse("reward", "it is not of the episodes' steps");
  if (terminated.size() != episodes) archive.refuse("terminated", "it is not of the episodes");
  clear();
  const auto* observed = reinterpret_cast<const std::byte*>(observations.data());
  auto reward = rewards.begin();
  for (std::size_t i = 0; i < episodes; ++i) {
    const std::span<const std::int32_t> actions = log.actions(i);
    if (!are_actions(task_.action, actions)) archive.refuse("action", "a number is not an action");
    Episode episode;
    episode.environment = log.environment(i);
    episode.number = log.number(i);
    episode.actions.assign(actions.begin(), actions.end());
    episode.log_probs.assign(log.log_probs(i).begin(), log.log_probs(i).end());
    episode.observations.assign(observed, observed + (log.steps(i) + 1) * row);
    episode.rewards.assign(reward, reward + log.steps(i));
    episode.end = terminated[i] != 0 ? End::kTerminated : End::kTruncated;
    observed += (log.steps(i) + 1) * row;
    reward += log.steps(i);
    add(episode);
  }
}

// Episode by episode.
void EpisodeStore::visit_advantages(StateArchive& archive) {
  for (const auto& [name, column] : {std::pair("value", value_), std::pair("advantage", advantage_)}) {
    torch::Tensor on_host = column.cpu();
    float* const rows = on_host.data_ptr<float>();
    std::vector<float> steps;
    for (const Entry& entry : episodes_)
      steps.insert(steps.end(), rows + entry.rows.first, rows + entry.rows.first + entry.rows.steps);
    const std::size_t count = steps.size();
    archive.array(name, steps);
    if (!archive.restoring()) continue;
    if (steps.size() != count) archive.refuse(name, "it is not of the episodes' steps");
    auto next = steps.begin();
    for (const Entry& entry : episodes_) {
      std::copy_n(next, entry.rows.steps, rows + entry.rows.first);
      next += entry.rows.steps;
    }
    column.narrow(0, 0, column.numel()).copy_(on_host);
  }
}

void EpisodeStore::keep(const EpisodeLog& log, VecEnv& environments, const StateArchive& archive) {
  clear();
  log.play(environments, archive, [&](const Episode& episode) {
    if (episode.steps() > task_.max_episode_steps) archive.refuse("steps", "an episode is longer than the task allows");
    add(episode);
  });
}

}  // namespace engram
