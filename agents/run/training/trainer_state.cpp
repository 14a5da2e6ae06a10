// What a run is saved as, and what it goes on from.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "agents/run/training/trainer.h"
#include "agents/study/episode_log.h"
#include "base/error.h"
#include "base/text/words.h"
#include "storage/tensors/digest.h"
#include "storage/tensors/weights.h"

namespace engram {
namespace {

// Of what a rank other than the first has saved.
std::string section_of(int rank) { return "rank" + std::to_string(rank); }

std::string digest_of(const TensorMap& weights) {
  Digest digest;
  for (const auto& [name, tensor] : weights) {
    const torch::Tensor plain = tensor.cpu().contiguous();
    digest.update(plain.const_data_ptr(), plain.nbytes());
  }
  return digest.hex();
}

}  // namespace

void Trainer::check_finite() {
  const Faults faults = learner_->faults();
  status_.skipped_updates = faults.count;
  if (faults.count > 0 && config_.run.on_nan == OnNan::kStop)
    throw DivergedError("update " + std::to_string(faults.first_update) + ": " + faults.first_tensor +
                        " is not finite; it changed no weights");
}

void Trainer::save() {
  save_requested_ = false;
  check_finite();
  update_status();
  StateArchive archive;
  visit_own_share(archive);
  if (!ranks_->alone()) gather_shares(archive);
  if (ranks_->first()) visit_common_state(archive);
  for (TrainObserver* observer : observers_) observer->save(status_, archive);
  last_save_ = Clock::now();
  if (config_.checkpoint.every_steps > 0) next_save_ = next_multiple(status_.steps, config_.checkpoint.every_steps);
}

// From the archives of the others' shares into that of the first rank, the one that is written. All ranks have the same
// weights, where no machine is at fault.
void Trainer::gather_shares(StateArchive& archive) {
  const std::vector<std::string> digests = ranks_->all_gather(digest_of(module_weights(*network_)));
  for (std::size_t rank = 1; rank < digests.size(); ++rank)
    if (digests[rank] != digests[0])
      throw std::runtime_error("rank " + std::to_string(rank) + " has other weights than rank 0 after " +
                               counted(status_.updates, "update"));
  const std::vector<std::string> shares = ranks_->gather(ranks_->first() ? "" : archive.bytes());
  for (std::size_t rank = 1; rank < shares.size(); ++rank) {
    std::istringstream stream(shares[rank]);
    archive.take_over(read_safetensors(stream, shares[rank].size(), "the state of rank " + std::to_string(rank)));
  }
}

void Trainer::visit_evaluation(StateArchive& archive, const std::string& name,
                               std::optional<EvaluationSummary>& evaluation) {
  bool made = evaluation.has_value();
  archive.value(name + "_made", made);
  if (!made) return;
  if (!evaluation) evaluation.emplace();
  archive.within(name, [&] {
    archive.value("environment_steps", evaluation->environment_steps);
    archive.value("updates", evaluation->updates);
    archive.value("episodes", evaluation->episodes);
    archive.value("success", evaluation->greedy.success);
    archive.value("mean_return", evaluation->greedy.mean_return);
    // States of older versions have no sampled episodes.
    const bool sampled = archive.restoring() ? archive.holds("sampled_success") || archive.holds("sampled_mean_return")
                                             : evaluation->sampled.has_value();
    if (!sampled) return;
    if (!evaluation->sampled) evaluation->sampled.emplace();
    archive.value("sampled_success", evaluation->sampled->success);
    archive.value("sampled_mean_return", evaluation->sampled->mean_return);
  });
}

std::unique_ptr<VecEnv> Trainer::training_rules() const {
  return make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kTraining,
                          static_cast<int>(share_.environments.count), 1,
                          static_cast<std::uint32_t>(share_.environments.first));
}

// The rows of a rank drop other channels than those of another.
void Trainer::draw_dropout_apart() {
  if (ranks_->first()) return;
  torch::Tensor seed = network_->dropout_seed_tick(device_).select(0, 0);
  seed.bitwise_xor_(ranks_->rank() * 0x1E3779B97F4A7C15);
}

// The same on every device. Older versions named where a run acted, and acted on a GPU in rounds of one episode each.
void Trainer::visit_experience(StateArchive& archive) {
  std::function<std::unique_ptr<VecEnv>()> make_rules;  // null: environments of a source are not played again
  if (!source_) make_rules = [this] { return training_rules(); };
  experience_->visit_own_state(archive, make_rules);
  archive.within("collector", [&] {
    archive.object("random", random_);
    std::vector<std::uint8_t> at_random;  // older versions let episodes that began at random go on so
    if (archive.restoring() && archive.holds("at_random")) archive.array("at_random", at_random);
    rollout_->visit_state(archive);
    if (phase_ != Phase::kRandom && std::ranges::find(at_random, 1) != at_random.end()) rollout_->abandon_running();
  });
}

// What differs between ranks. The first one's stands where that of a run without ranks does.
void Trainer::visit_own_share(StateArchive& archive) {
  const auto visit = [&] { archive.within("experience", [&] { visit_experience(archive); }); };
  if (ranks_->first()) return visit();
  archive.within(section_of(ranks_->rank()), [&] {
    visit();
    torch::Tensor seed_tick = network_->dropout_seed_tick(device_);
    archive.tensor("dropout_seed_tick", seed_tick);
  });
}

// Of another number of ranks: every environment goes to its new rank with its episodes, the older before the younger,
// and begins its next one.
void Trainer::deal_experience(StateArchive& archive) {
  struct EpisodeOfRank {
    double age;  // where it stood in its rank's replay: 0 the oldest, 1 the newest
    const EpisodeLog* log;
    std::size_t episode;
    std::int32_t environment;
  };
  const Block own = share_.environments;
  const ActionSpec action = config_.task.info().action;
  std::vector<EpisodeLog> kept(static_cast<std::size_t>(restored_ranks_), EpisodeLog(action));
  std::vector<EpisodeOfRank> episodes;
  std::vector<std::uint32_t> number_N(static_cast<std::size_t>(own.count));
  for (int rank = 0; rank < restored_ranks_; ++rank) {
    const Block theirs = block_of(config_.run.num_envs, rank, restored_ranks_);
    EpisodeLog& log = kept[static_cast<std::size_t>(rank)];
    EpisodeLog running(action);
    const auto visit = [&] {
      archive.within("experience", [&] {
        archive.within("replay", [&] { log.visit_state(archive); });
        archive.within("collector", [&] { archive.within("running", [&] { running.visit_state(archive); }); });
        running.check_running(archive, config_.task.info(), static_cast<std::size_t>(theirs.count));
      });
    };
    rank == 0 ? visit() : archive.within(section_of(rank), visit);
    const auto place = [&](std::int64_t environment) { return theirs.first + environment - own.first; };
    for (std::int64_t i = 0; i < theirs.count; ++i)
      if (place(i) >= 0 && place(i) < own.count)
        number_N[static_cast<std::size_t>(place(i))] =
            running.number(static_cast<std::size_t>(i)) + (running.steps(static_cast<std::size_t>(i)) > 0 ? 1 : 0);
    for (std::int64_t i = 0; i < log.episodes(); ++i) {
      const auto episode = static_cast<std::size_t>(i);
      const std::int32_t environment = log.environment(episode);
      if (environment < 0 || environment >= theirs.count)
        archive.refuse("experience.replay.environment", "there is no environment " + std::to_string(environment));
      if (place(environment) >= 0 && place(environment) < own.count)
        episodes.push_back({(static_cast<double>(i) + 0.5) / static_cast<double>(log.episodes()), &log, episode,
                            static_cast<std::int32_t>(place(environment))});
    }
  }
  std::ranges::stable_sort(episodes, {}, &EpisodeOfRank::age);
  EpisodeLog mine(action);
  for (const EpisodeOfRank& one : episodes)
    mine.add(one.environment, one.log->number(one.episode), one.log->actions(one.episode));
  rollout_->restart(std::move(number_N));

  // Streams of their own, which begin here.
  const auto rank = static_cast<std::uint32_t>(ranks_->rank()), now = static_cast<std::uint32_t>(status_.updates + 1);
  rollout_->draw_from(std::numeric_limits<std::uint32_t>::max() - now);
  random_ = Rng(config_.run.seed, Purpose::kRun, rank, now);
  experience_->take_over(mine, *training_rules(), archive, now);
  draw_dropout_apart();
}

void Trainer::restore(StateArchive& archive) {
  visit_common_state(archive);
  const bool other_number = restored_ranks_ != ranks_->size();
  if (other_number)
    deal_experience(archive);
  else
    visit_own_share(archive);
  for (int rank = 0; rank < restored_ranks_; ++rank)
    if (other_number || rank != ranks_->rank()) archive.skip(rank == 0 ? "experience" : section_of(rank));
}

// What is the same in all ranks.
void Trainer::visit_common_state(StateArchive& archive) {
  if (archive.restoring() && archive.holds("acts_in")) {
    std::string place;
    archive.value("acts_in", place);
    if (place != "environments on the CPU")
      archive.refuse("acts_in", "an older version wrote it with " + place + ", of which the state was another");
  }
  int ranks = ranks_->size();
  if (archive.restoring() ? archive.holds("ranks") : ranks > 1)
    archive.value("ranks", ranks);
  else
    ranks = 1;
  if (ranks < 1 || ranks > config_.run.num_envs) archive.refuse("ranks", "so many ranks have no environments");
  if (archive.restoring()) restored_ranks_ = ranks;
  int phase = static_cast<int>(phase_);
  archive.value("phase", phase);
  if (phase < 0 || phase > static_cast<int>(Phase::kMeasure)) archive.refuse("phase", "there is no such phase");
  phase_ = static_cast<Phase>(phase);
  archive.within("learner", [&] { learner_->visit_state(archive); });
  archive.value("steps", status_.steps);
  archive.value("updates", status_.updates);
  archive.value("episodes", status_.episodes);
  experience_->visit_common_state(archive);
  archive.value("next_evaluation", next_evaluation_);
  archive.value("next_metrics", next_metrics_);
  if (!archive.restoring() || archive.holds("measured_steps")) archive.value("measured_steps", measured_steps_);
  archive.value("evaluations", evaluations_);
  if (std::min({status_.steps, status_.updates, status_.episodes}) < 0) archive.refuse("steps", "a count is negative");
  archive.value("seconds", archive.restoring() ? seconds_before_ : status_.seconds);
  visit_evaluation(archive, "last_evaluation", status_.last_evaluation);
  visit_evaluation(archive, "best_evaluation", status_.best_evaluation);
  if (status_.best_evaluation) {
    if (best_weights_.empty()) best_weights_ = copied_weights(*network_);
    archive.within("best_weights", [&] {
      for (auto& [name, tensor] : best_weights_) archive.tensor(name, tensor);
    });
  }

  std::vector<double> returns;
  std::vector<std::uint8_t> successes;
  for (const auto& [total_reward, success] : recent_) returns.push_back(total_reward), successes.push_back(success);
  archive.array("recent_returns", returns);
  archive.array("recent_successes", successes);
  if (returns.size() != successes.size() || returns.size() > kRecentEpisodes)
    archive.refuse("recent_returns", "it has another length than recent_successes");
  recent_.clear();
  for (std::size_t i = 0; i < returns.size(); ++i) recent_.emplace_back(returns[i], successes[i] != 0);

  bool learnt = !last_losses_.empty();
  archive.value("learnt", learnt);
  if (!learnt) return;
  if (last_losses_.empty())
    for (const std::string& name : learner_->scalar_names()) last_losses_.emplace_back(name, torch::zeros({}));
  archive.within("losses", [&] {
    for (auto& [name, value] : last_losses_) archive.tensor(name, value);
  });
}

}  // namespace engram
