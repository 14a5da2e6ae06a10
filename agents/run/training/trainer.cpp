#include "agents/run/training/trainer.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "agents/play/evaluator.h"
#include "agents/play/foreign_envs.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/diagnosis.h"
#include "base/error.h"
#include "nn/layers/seeded_generator.h"

namespace engram {
namespace {

double seconds_between(std::chrono::steady_clock::time_point from, std::chrono::steady_clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Adds the seconds that it lives to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += seconds_between(begin_, std::chrono::steady_clock::now()); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

FinalEvaluation::Played final_of(const std::vector<EpisodeResult>& episodes) {
  const int solved = count_solved(episodes);
  return {solved, wilson_interval(solved, static_cast<std::int64_t>(episodes.size())), summarize(episodes).mean_return,
          decision_rates(episodes)};
}

// What a rank tells the others: this, and then the episodes that it has played.
struct Header {
  std::int64_t steps, wishes, ready;
  std::int64_t episodes;     // that it holds
  std::int64_t batch_steps;  // T of its next batch
};

}  // namespace

bool better_or_equal(const EvaluationSummary& a, const EvaluationSummary& b) {
  return std::pair(a.greedy.success, a.greedy.mean_return) >= std::pair(b.greedy.success, b.greedy.mean_return);
}

Trainer::FirstAgent Trainer::first_agent(const Config& config, torch::Device device,
                                         const StartingWeights& first_weights) {
  const SeededGenerator drawing(config.run.seed);
  FirstAgent first{draw_network(config, config.task.info(), device), {}};
  if (!first_weights.tensors.empty()) load_module_weights(*first.network, first_weights.tensors, first_weights.where);
  if (config.adapters.rank > 0) first.adapters.emplace(config.adapters, *first.network);
  return first;
}

Trainer::Trainer(const Config& config, torch::Device device, int threads, const StartingWeights& first_weights,
                 std::shared_ptr<Ranks> ranks, EnvironmentSource source)
    : Trainer(config, device, threads, first_agent(config, device, first_weights), std::move(ranks),
              std::move(source)) {}

Trainer::Trainer(const Config& config, torch::Device device, int threads, FirstAgent first,
                 std::shared_ptr<Ranks> ranks, EnvironmentSource source)
    : config_(config),
      ranks_(std::move(ranks)),
      share_(share_of(config, *ranks_)),
      source_(std::move(source)),
      network_(std::move(first.network)),
      device_(device),
      threads_(threads),
      rollout_(make_own_rollout(Purpose::kTraining, share_.environments,
                                config.run.memoryless_collection ? MemorySpan::kStep : MemorySpan::kEpisode)),
      experience_(make_experience(config, share_, *ranks_, device)),
      random_(config.run.seed, Purpose::kRun, static_cast<std::uint32_t>(ranks_->rank()), 0),
      learner_(std::make_unique<Learner>(config.learner, network_, std::move(first.adapters), ranks_)),
      next_evaluation_(config.evaluation.every_steps),
      next_metrics_(config.run.metrics_every_steps) {
  status_.total_steps = config.run.steps;
  if (rollout_->size() != static_cast<int>(share_.environments.count))
    throw UserError("run.num_envs " + std::to_string(config.run.num_envs) + " and the " +
                    std::to_string(rollout_->size()) + " environments that were given contradict each other");
  draw_dropout_apart();
}

TrainStatus Trainer::run(const std::vector<TrainObserver*>& observers) {
  observers_ = observers;
  start_ = learning_start_ = last_report_ = last_save_ = Clock::now();
  if (config_.checkpoint.every_steps > 0) next_save_ = next_multiple(status_.steps, config_.checkpoint.every_steps);
  steps_before_ = status_.steps;
  updates_before_ = status_.updates;
  settled_ = settled_before_ = settled_steps();
  network_->train();

  if (status_.steps == 0) save();  // so that there is always something to go on from
  exchange(0, {});
  while (!finished()) {
    wishes_are_new_ = false;
    {
      // A report waits for a GPU that still does the work of the phase.
      double other = 0;
      const Stopwatch stopwatch(phase_ == Phase::kCollect ? status_.seconds_acting
                                : phase_ == Phase::kLearn ? status_.seconds_learning
                                                          : other);
      move_or_save();
      report_if_due();
    }
    if (!wishes_are_new_) exchange(0, {});
    if (save_is_due()) save();
  }
  save();
  if (status_.stopped != StopReason::kRequest) {
    const bool evaluated = status_.last_evaluation && status_.last_evaluation->environment_steps == status_.steps;
    if (evaluated || evaluate_policy()) evaluate_finally();
    if ((agreed_wishes_ & kWishStop) != 0) status_.stopped = StopReason::kRequest;
  }
  update_status();
  if (status_.stopped != StopReason::kRequest && measured_steps_ != status_.steps) measure();
  for (TrainObserver* observer : observers_) observer->finished(status_, *network_);
  return status_;
}

std::unique_ptr<Rollout> Trainer::make_own_rollout(Purpose purpose, const Block& environments, MemorySpan span) const {
  const int num_envs = static_cast<int>(environments.count);
  const auto first = static_cast<std::uint32_t>(environments.first);
  if (source_) return make_rollout(config_, network_, source_.make(purpose, num_envs), span, first);
  return make_rollout(config_, network_, device_, purpose, num_envs, threads_, span, first);
}

// What was played before environments failed is worth keeping.
void Trainer::move_or_save() {
  try {
    move();
  } catch (const EnvironmentFailure& failure) {
    save();
    std::rethrow_exception(failure.cause);
  }
}

void Trainer::move() {
  switch (phase_) {
    case Phase::kRandom:
      if (status_.episodes < config_.run.random_episodes) {
        collect(Acting::kRandom);
        break;
      }
      rollout_->abandon_running();  // the policy's memory would lack what was done at random
      phase_ = Phase::kCollect;
      learning_start_ = Clock::now();
      steps_before_ = status_.steps;
      settled_ = settled_before_ = settled_steps();
      break;
    case Phase::kCollect: {
      const std::int64_t before = status_.episodes;
      collect(Acting::kPolicy);
      if (status_.episodes > before) phase_ = Phase::kLearn;
      break;
    }
    case Phase::kLearn: {
      if (experience_->owes_update() && all_are_ready_) {
        update();
        break;
      }
      check_finite();  // waits for a GPU, whose work would count as acting
      phase_ = Phase::kMeasure;
      break;
    }
    case Phase::kMeasure:
      if (status_.steps >= next_metrics_) measure();
      if (status_.steps < next_evaluation_ || evaluate_policy()) phase_ = Phase::kCollect;
      break;
  }
}

void Trainer::collect(Acting acting) {
  rollout_->run([&] { rollout_->policy().explore(status_.steps); });
  const Rollout::Played played =
      acting == Acting::kRandom ? rollout_->play_random(random_) : rollout_->play(ActionChoice::kSample);
  if (!played.episodes.empty()) rollout_->run([&] { experience_->add(rollout_->recording(), played.episodes); });
  std::vector<EpisodeResult> own;
  for (const RecordedEpisode& episode : played.episodes) own.push_back(result_of(episode));
  const AllPlayed all = exchange(played.steps * rollout_->size() - played.unrecorded, own);
  status_.steps += all.steps;
  for (const EpisodeResult& episode : all.episodes) add_episode(episode);
}

void Trainer::add_episode(const EpisodeResult& episode) {
  ++status_.episodes;
  recent_.emplace_back(episode.total_reward, episode.success);
  if (recent_.size() > kRecentEpisodes) recent_.pop_front();
  experience_->count(episode.steps, episode.total_reward);
}

void Trainer::update() {
  if (const std::optional<IterationEpisodes> iteration = experience_->next_iteration()) {
    update_status();
    for (TrainObserver* observer : observers_) observer->begins_iteration(status_, *iteration);
  }
  last_losses_ = experience_->update(*learner_, collected_, progress());
  ++status_.updates;
}

void Trainer::measure() {
  next_metrics_ = next_multiple(status_.steps, config_.run.metrics_every_steps);
  measured_steps_ = status_.steps;
  update_status();
  for (TrainObserver* observer : observers_) observer->measured(status_);
}

Rollout& Trainer::evaluation_rollout(const Block& environments) {
  if (!evaluation_rollout_ || evaluated_ != environments) {
    evaluated_ = environments;
    evaluation_rollout_ = make_own_rollout(Purpose::kEvaluation, environments, MemorySpan::kEpisode);
    if (!source_)
      evaluation_rules_ =
          make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kEvaluation, static_cast<int>(environments.count),
                           1, static_cast<std::uint32_t>(environments.first));
  }
  return *evaluation_rollout_;
}

// Nothing if it was interrupted.
std::optional<Trainer::Results> Trainer::play(int episodes, std::uint32_t first_episode) {
  const Stopwatch stopwatch(status_.seconds_evaluating);
  const auto interrupted = [this] {
    for (TrainObserver* observer : observers_) observer->evaluating();
    return stop_requested_.load();
  };
  const EvaluationShare own = evaluation_share(episodes, ranks_->rank(), ranks_->size());
  const auto played = [&](ActionChoice choice) -> std::vector<EpisodeResult> {
    if (own.episodes == 0) return {};
    Rollout& rollout = evaluation_rollout(own.environments);
    return evaluate(rollout, own.episodes, choice, first_episode, interrupted, evaluation_rules_.get());
  };
  Results results;
  for (const auto& [choice, all] :
       {std::pair(ActionChoice::kGreedy, &results.greedy), std::pair(ActionChoice::kSample, &results.sampled)}) {
    *all = exchange(0, played(choice)).episodes;
    if ((agreed_wishes_ & kWishStop) != 0) return std::nullopt;
  }
  return results;
}

std::vector<Scalar> Trainer::critic_loss_by_phase() {
  if (source_) return {};  // which say nothing of phases
  const Stopwatch stopwatch(status_.seconds_evaluating);
  EpisodeStore& store = experience_->store();
  const std::int64_t kept = store.episodes(), chosen = std::min(kept, EvaluationSummary::kPhaseEpisodes);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < chosen; ++i) indices.push_back(i * kept / chosen);
  if (!training_rules_) training_rules_ = training_rules();
  const EvaluationMode evaluation_mode(*network_);
  const std::vector<PhaseFigures> phases =
      figures_by_phase(store, indices, *training_rules_, *network_, learner_->algorithm());
  std::vector<Scalar> losses;
  if (phases.size() < 2) return losses;
  for (const PhaseFigures& phase : phases) {
    std::string name = phase.phase;
    std::ranges::replace(name, ' ', '_');
    losses.emplace_back(std::string("critic_loss_").append(name), phase.squared_error);
  }
  return losses;
}

// False, and nothing has happened, if it was interrupted.
bool Trainer::evaluate_policy() {
  if (!evaluates()) return true;
  const int episodes = config_.evaluation.episodes, environments = evaluation_envs(episodes);
  const auto episodes_per_environment = static_cast<std::uint32_t>((episodes + environments - 1) / environments);
  const std::optional<Results> results = play(episodes, evaluations_ * episodes_per_environment);
  if (!results) return false;
  ++evaluations_;
  next_evaluation_ = next_multiple(status_.steps, config_.evaluation.every_steps);

  const EvaluationSummary summary{
      .environment_steps = status_.steps,
      .updates = status_.updates,
      .episodes = episodes,
      .greedy = summarize(results->greedy),
      .sampled = summarize(results->sampled),
      .collected_episodes = status_.episodes,
      .greedy_decisions = decision_rates(results->greedy),
      .sampled_decisions = decision_rates(results->sampled),
      .critic_loss_by_phase = ranks_->first() ? critic_loss_by_phase() : std::vector<Scalar>()};
  const bool best = !status_.best_evaluation || better_or_equal(summary, *status_.best_evaluation);
  status_.last_evaluation = summary;
  if (best) {
    status_.best_evaluation = summary;
    best_weights_ = copied_weights(*network_);
  }
  update_status();
  for (TrainObserver* observer : observers_) observer->evaluated(status_, *network_, best);
  return true;
}

void Trainer::evaluate_finally() {
  const int episodes = config_.evaluation.final_episodes;
  if (episodes == 0 || !status_.best_evaluation) return;
  const TensorMap last_weights = copied_weights(*network_);
  load_module_weights(*network_, best_weights_, "the best weights");
  const std::optional<Results> results = play(episodes, kFirstUnseenEpisode);
  load_module_weights(*network_, last_weights, "the last weights");
  if (!results) return;
  status_.final_evaluation = {*status_.best_evaluation, episodes, final_of(results->greedy),
                              final_of(results->sampled)};
}

bool Trainer::time_is_up() const {
  return config_.run.max_seconds > 0 &&
         seconds_before_ + seconds_between(start_, Clock::now()) >= config_.run.max_seconds;
}

// Clocks and signals come to each rank by itself.
int Trainer::own_wishes() const {
  const double minutes = config_.checkpoint.every_minutes;
  const bool save_now = save_requested_ || (minutes > 0 && seconds_between(last_save_, Clock::now()) >= 60 * minutes);
  return (stop_requested_ ? kWishStop : 0) | (time_is_up() ? kWishEnd : 0) | (save_now ? kWishSave : 0);
}

// Tells the others what this rank has played, and wishes; afterwards all know the same.
Trainer::AllPlayed Trainer::exchange(std::int64_t steps, const std::vector<EpisodeResult>& episodes) {
  static_assert(std::is_trivially_copyable_v<EpisodeResult>);
  const Header own{steps, own_wishes(), experience_->ready(), experience_->store().episodes(),
                   ranks_->alone() ? 1 : experience_->next_batch_steps()};
  std::string sent(sizeof own + episodes.size() * sizeof(EpisodeResult), '\0');
  std::memcpy(sent.data(), &own, sizeof own);
  if (!episodes.empty()) std::memcpy(sent.data() + sizeof own, episodes.data(), sent.size() - sizeof own);

  AllPlayed all;
  agreed_wishes_ = 0;
  collected_ = {};
  all_are_ready_ = true;
  for (const std::string& received : ranks_->all_gather(sent)) {
    Header header{};
    std::memcpy(&header, received.data(), sizeof header);
    all.steps += header.steps;
    all_are_ready_ = all_are_ready_ && header.ready != 0;
    agreed_wishes_ |= static_cast<int>(header.wishes);
    collected_ = {std::min(collected_.fewest_episodes, header.episodes),
                  std::max(collected_.most_episodes, header.episodes),
                  std::max(collected_.batch_steps, header.batch_steps)};
    const std::size_t bytes = received.size() - sizeof header, before = all.episodes.size();
    all.episodes.resize(before + bytes / sizeof(EpisodeResult));
    if (bytes > 0) std::memcpy(all.episodes.data() + before, received.data() + sizeof header, bytes);
  }
  wishes_are_new_ = true;
  return all;
}

bool Trainer::finished() {
  const double goal = config_.evaluation.stop_at_success;
  const bool collects = phase_ == Phase::kRandom || phase_ == Phase::kCollect;
  const bool solved = goal > 0 && status_.last_evaluation && status_.last_evaluation->greedy.success >= goal;
  status_.stopped = (agreed_wishes_ & kWishStop) != 0                ? StopReason::kRequest
                    : solved                                         ? StopReason::kSolved
                    : (agreed_wishes_ & kWishEnd) != 0               ? StopReason::kTime
                    : collects && status_.steps >= config_.run.steps ? StopReason::kSteps
                                                                     : StopReason::kNone;
  return status_.stopped != StopReason::kNone;
}

bool Trainer::save_is_due() const {
  const bool by_steps = config_.checkpoint.every_steps > 0 && status_.steps >= next_save_;
  return by_steps || (agreed_wishes_ & kWishSave) != 0;
}

void Trainer::report_if_due() {
  if (seconds_between(last_report_, Clock::now()) < config_.run.report_seconds) return;
  last_report_ = Clock::now();
  update_status();
  for (TrainObserver* observer : observers_) observer->report(status_);
}

double Trainer::settled_steps() const {
  return std::max(0.0, static_cast<double>(status_.steps) - experience_->unlearnt_steps());
}

void Trainer::update_status() {
  const auto now = Clock::now();
  const double learning_seconds = seconds_between(learning_start_, now);
  status_.seconds = seconds_before_ + seconds_between(start_, now);
  if (learning_seconds > 0) {
    status_.steps_per_second = static_cast<double>(status_.steps - steps_before_) / learning_seconds;
    status_.updates_per_second = static_cast<double>(status_.updates - updates_before_) / learning_seconds;
  }

  // An episode owes all its updates when it ends; what is done does not go back for that.
  settled_ = std::max(settled_, settled_steps());
  const double total = static_cast<double>(status_.total_steps);
  const double settled_now = settled_ - settled_before_;
  status_.done = std::min(1.0, settled_ / total);
  status_.seconds_left.reset();
  if (status_.updates > updates_before_ && settled_now > 0)
    status_.seconds_left = learning_seconds * std::max(0.0, total - settled_) / settled_now;
  if (config_.run.max_seconds > 0) {
    const double to_limit = std::max(0.0, config_.run.max_seconds - status_.seconds);
    status_.seconds_left = std::min(status_.seconds_left.value_or(to_limit), to_limit);
    status_.done = std::max(status_.done, std::min(1.0, status_.seconds / config_.run.max_seconds));
  }

  if (!recent_.empty()) {
    std::vector<double> returns;
    for (const auto& episode : recent_) returns.push_back(episode.first);
    const auto solved = std::ranges::count_if(recent_, [](const auto& episode) { return episode.second; });
    status_.recent_return = mean_of(returns);
    status_.recent_success = static_cast<double>(solved) / static_cast<double>(recent_.size());
  }
  status_.losses.clear();
  if (phase_ == Phase::kLearn) learner_->faults();  // throws where a rank is lost and the losses mean nothing
  for (const auto& [name, value] : last_losses_) status_.losses.emplace_back(name, value.item<double>());
}

}  // namespace engram
