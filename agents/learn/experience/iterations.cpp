#include "agents/learn/experience/iterations.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "agents/play/rollout.h"

namespace engram {
namespace {

// The last look of an iteration may find that an episode of every environment has ended.
std::int64_t most_steps(const IterationOptions& options, const TaskInfo& task, std::int64_t environments) {
  return options.steps + environments * (task.max_episode_steps + std::int64_t{Rollout::kStepsBetweenLooks});
}

// Half of a minibatch, but no less than keeps a GPU busy for longer than the launches of a part: MiniGrid's minibatches
// of 1,208 steps take a third longer in parts of 604.
constexpr std::int64_t kLeastPartSteps = 2048;

// Batches on a GPU come in few sizes, since each has a recording of its own: eight between a power of two and the next.
std::int64_t size_class(std::int64_t episodes) {
  const std::int64_t unit =
      std::max<std::int64_t>(1, static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(episodes))) / 8);
  return (episodes + unit - 1) / unit * unit;
}

// Part `number` of `parts` as even ones.
std::vector<std::int64_t> part_of(const std::vector<std::int64_t>& all, std::int64_t number, std::int64_t parts) {
  const auto count = static_cast<std::int64_t>(all.size());
  return {all.begin() + number * count / parts, all.begin() + (number + 1) * count / parts};
}

std::vector<std::int64_t> numbers_below(std::int64_t count) {
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  std::iota(numbers.begin(), numbers.end(), 0);
  return numbers;
}

}  // namespace

Iterations::Iterations(const IterationOptions& options, const TaskInfo& task, std::int64_t environments,
                       std::uint64_t seed, int rank, torch::Device device)
    : Experience(EpisodeStore::of_iterations(task, most_steps(options, task, environments), device), seed, rank),
      options_(options),
      device_(device),
      parts_(task.max_episode_steps, std::max(kLeastPartSteps, options.steps / options.minibatches / 2), device),
      minibatches_(options.minibatches) {}

void Iterations::add(const RecordingMemory& recording, const std::vector<RecordedEpisode>& episodes) {
  if (learnt_) store_.clear();
  learnt_ = false;
  store_.add(recording, episodes);
}

void Iterations::count(std::int64_t steps, double episode_return) {
  ended_steps_ += steps;
  ++ended_episodes_;
  ended_return_ += episode_return;
  last_returns_.push_back(episode_return);
  if (last_returns_.size() > IterationEpisodes::kSmoothed) last_returns_.pop_front();
}

std::optional<IterationEpisodes> Iterations::next_iteration() const {
  if (done_ > 0 || !owes_update() || ended_episodes_ == 0) return {};
  const bool many = ended_episodes_ >= static_cast<std::int64_t>(IterationEpisodes::kSmoothed);
  const double sum = many ? ended_return_ : std::accumulate(last_returns_.begin(), last_returns_.end(), 0.0);
  const double count = many ? static_cast<double>(ended_episodes_) : static_cast<double>(last_returns_.size());
  return IterationEpisodes{ended_episodes_, sum / count};
}

// Of the longest of all episodes. By it all ranks know whether minibatches come in parts, and on a GPU those that do
// not are as long.
std::int64_t Iterations::next_batch_steps() const {
  return store_.episodes() > 0 ? store_.gathered_steps(numbers_below(store_.episodes())) : 1;
}

std::vector<BatchPart> Iterations::parts_of(const std::vector<std::int64_t>& episodes) const {
  return parts_.deal(episodes, [this](std::int64_t episode) { return store_.steps_of(episode); });
}

EpisodeBatch Iterations::gather(const std::vector<std::int64_t>& episodes, std::int64_t longest, const Collected& all) {
  if (!device_.is_cuda()) return store_.gather(episodes);
  const std::int64_t most = std::max(store_.episodes(), all.most_episodes);
  return store_.gather(episodes, longest, size_class((most + minibatches_ - 1) / minibatches_));
}

// In batches as large as minibatches, or in parts.
void Iterations::estimate_all(Learner& learner, const Collected& all_ranks) {
  const std::vector<std::int64_t> all = numbers_below(store_.episodes());
  const std::int64_t longest = longest_steps(all_ranks);
  const auto estimate = [&](const std::vector<std::int64_t>& episodes, const EpisodeBatch& batch) {
    const AdvantageEstimate estimated = learner.estimate_advantages(batch);
    store_.put_advantages(episodes, estimated.value_BT, estimated.advantage_BT);
  };
  if (in_parts(longest)) {
    for (const BatchPart& part : parts_of(all)) estimate(part.episodes, gather(part));
  } else {
    for (std::int64_t i = 0; i < minibatches_; ++i) {
      const std::vector<std::int64_t> episodes = part_of(all, i, minibatches_);
      estimate(episodes, gather(episodes, longest, all_ranks));
    }
  }
  learner.all_estimated();
}

NamedScalars Iterations::learn_from(Learner& learner, const std::vector<std::int64_t>& episodes, const Collected& all) {
  const std::int64_t longest = longest_steps(all);
  if (!in_parts(longest)) return learner.update(gather(episodes, longest, all));
  const std::vector<BatchPart> parts = parts_of(episodes);
  return learner.update_in_parts(parts.size(), [&](std::size_t i) { return gather(parts.at(i)); });
}

void Iterations::shuffle() {
  order_ = numbers_below(store_.episodes());
  for (std::size_t left = order_.size(); left > 1; --left)
    std::swap(order_[left - 1], order_[random_.below(static_cast<std::uint32_t>(left))]);
}

NamedScalars Iterations::update(Learner& learner, const Collected& all, double progress) {
  const bool begins = done_ == 0;
  if (begins) {
    progress_ = progress;
    // Every rank has an episode for each of them.
    const std::int64_t most = std::min(store_.episodes(), all.fewest_episodes);
    minibatches_ = std::max<std::int64_t>(std::min(ended_steps_ * options_.minibatches / options_.steps, most),
                                          options_.minibatches);
  }
  if (begins || !annealed_) learner.anneal(progress_);
  annealed_ = true;
  if (begins) {
    learner.begin_iteration();
    estimate_all(learner, all);
  }
  const std::int64_t number = done_ % minibatches_;
  if (number == 0) {
    learner.begin_pass();
    shuffle();
  }
  NamedScalars scalars = learn_from(learner, part_of(order_, number, minibatches_), all);
  if (++done_ == updates()) {
    done_ = ended_steps_ = ended_episodes_ = 0;
    ended_return_ = 0;
    learnt_ = true;
  }
  return scalars;
}

double Iterations::unlearnt_steps() const {
  return static_cast<double>(ended_steps_) * (1 - static_cast<double>(done_) / static_cast<double>(updates()));
}

void Iterations::visit_common_state(StateArchive& archive) {
  archive.within("iteration", [&] {
    archive.value("ended_steps", ended_steps_);
    if (archive.restoring()) minibatches_ = options_.minibatches;  // as in states of older versions
    if (!archive.restoring() || archive.holds("minibatches")) archive.value("minibatches", minibatches_);
    archive.value("done", done_);
    archive.value("progress", progress_);
    archive.value("learnt", learnt_);
    visit_returns(archive);
    if (ended_steps_ < 0) archive.refuse("ended_steps", "a count is negative");
    if (minibatches_ < options_.minibatches) archive.refuse("minibatches", "an iteration has more");
    if (done_ < 0 || done_ >= updates()) archive.refuse("done", "an iteration has other updates");
  });
}

// States of older versions have none.
void Iterations::visit_returns(StateArchive& archive) {
  if (archive.restoring() && !archive.holds("last_returns")) return;
  std::vector<double> returns(last_returns_.begin(), last_returns_.end());
  archive.value("ended_episodes", ended_episodes_);
  archive.value("ended_return", ended_return_);
  archive.array("last_returns", returns);
  if (ended_episodes_ < 0) archive.refuse("ended_episodes", "a count is negative");
  if (returns.size() > IterationEpisodes::kSmoothed)
    archive.refuse("last_returns", "it has more episodes than are kept");
  last_returns_.assign(returns.begin(), returns.end());
}

void Iterations::visit_own_state(StateArchive& archive,
                                 const std::function<std::unique_ptr<VecEnv>()>& make_environments) {
  Experience::visit_own_state(archive, make_environments);
  archive.array("order", order_);
  if (done_ > 0 && minibatches_ > store_.episodes())
    archive.refuse("order", std::to_string(store_.episodes()) + " episodes are fewer than minibatches");
  if (!archive.restoring() || done_ % minibatches_ == 0) return;
  std::vector<std::int64_t> sorted = order_;
  std::ranges::sort(sorted);
  if (sorted != numbers_below(store_.episodes())) archive.refuse("order", "it is not an order of the episodes");
}

// What was collected is few steps, and what has been learnt from it cannot be dealt: the iteration begins anew.
void Iterations::take_over(const EpisodeLog&, VecEnv&, const StateArchive&, std::uint32_t stream) {
  ended_steps_ = ended_episodes_ = done_ = 0;
  ended_return_ = 0;
  learnt_ = false;
  store_.clear();
  random_ = draws_of(stream);
}

}  // namespace engram
