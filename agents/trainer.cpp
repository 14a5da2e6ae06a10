#include "agents/trainer.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>
#include <string>
#include <utility>

#include "agents/diagnosis.h"
#include "agents/evaluator.h"
#include "agents/sac_learner.h"
#include "agents/trained_agent.h"

namespace engram {
namespace {

constexpr std::size_t kRecentEpisodes = 50;

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

// The first multiple of `every` after `steps`.
std::int64_t next_multiple(std::int64_t steps, std::int64_t every) { return (steps / every + 1) * every; }

FinalEvaluation::Played final_of(const std::vector<EpisodeResult>& episodes) {
  const int solved = count_solved(episodes);
  return {solved, wilson_interval(solved, static_cast<std::int64_t>(episodes.size())), summarize(episodes).mean_return,
          decision_rates(episodes)};
}

TensorMap copied_weights(const AgentNetwork& network) {
  TensorMap weights = module_weights(network);
  for (auto& [name, tensor] : weights) tensor = tensor.to(torch::kCPU, /*non_blocking=*/false, /*copy=*/true);
  return weights;
}

// That a run ever collects: it ends with the look after its last step, with an episode of every environment that began
// at random before it.
std::int64_t most_steps(const Config& config) {
  const std::int64_t longest = config.task.info().max_episode_steps + Rollout::kStepsBetweenLooks;
  return config.run.steps + longest * (config.run.num_envs + config.run.random_episodes);
}

std::shared_ptr<AgentNetwork> make_first_network(const Config& config, torch::Device device,
                                                 const StartingWeights& first_weights) {
  auto network = make_network(config, config.task.info(), device);
  if (!first_weights.tensors.empty()) load_module_weights(*network, first_weights.tensors, first_weights.where);
  return network;
}

}  // namespace

bool better_or_equal(const EvaluationSummary& a, const EvaluationSummary& b) {
  return std::pair(a.greedy.success, a.greedy.mean_return) >= std::pair(b.greedy.success, b.greedy.mean_return);
}

Trainer::Trainer(const Config& config, torch::Device device, int threads, const StartingWeights& first_weights)
    : config_(config),
      network_(make_first_network(config, device, first_weights)),
      device_(device),
      threads_(threads),
      rollout_(make_rollout(config, network_, device, Purpose::kTraining, config.run.num_envs, threads,
                            config.run.memoryless_collection ? MemorySpan::kStep : MemorySpan::kEpisode)),
      replay_(config.replay, config.task.info(), most_steps(config), device),
      random_(config.run.seed, Purpose::kRun, 0, 0),
      replay_random_(config.run.seed, Purpose::kReplay, 0, 0),
      learner_(std::make_unique<SacLearner>(config.learner, network_, config.adapters)),
      next_evaluation_(config.evaluation.every_steps),
      next_metrics_(config.run.metrics_every_steps) {
  status_.total_steps = config.run.steps;
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
  while (!finished()) {
    {
      // A report waits for a GPU that still does the work of the phase.
      double other = 0;
      const Stopwatch stopwatch(phase_ == Phase::kCollect ? status_.seconds_acting
                                : phase_ == Phase::kLearn ? status_.seconds_learning
                                                          : other);
      move();
      report_if_due();
    }
    save_if_due();
  }
  save();
  if (status_.stopped != StopReason::kRequest) {
    const bool evaluated = status_.last_evaluation && status_.last_evaluation->environment_steps == status_.steps;
    if (evaluated || evaluate_policy()) evaluate_finally();
    if (stop_requested_) status_.stopped = StopReason::kRequest;
  }
  update_status();
  for (TrainObserver* observer : observers_) observer->finished(status_, *network_);
  return status_;
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
      if (pending_updates_ > 0) {
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
  const Rollout::Played played =
      acting == Acting::kRandom ? rollout_->play_random(random_) : rollout_->play(ActionChoice::kSample);
  status_.steps += played.steps * rollout_->size();
  if (played.episodes.empty()) return;
  rollout_->run([&] { replay_.add(rollout_->recording(), played.episodes); });
  for (const RecordedEpisode& episode : played.episodes)
    add_episode({episode.total_reward, episode.success != 0, episode.steps});
}

void Trainer::add_episode(const EpisodeResult& episode) {
  ++status_.episodes;
  recent_.emplace_back(episode.total_reward, episode.success);
  if (recent_.size() > kRecentEpisodes) recent_.pop_front();
  pending_updates_ +=
      static_cast<std::int64_t>(std::ceil(config_.run.updates_per_step * static_cast<double>(episode.steps)));
}

void Trainer::update() {
  last_losses_ = learner_->update(replay_.sample(replay_random_));
  ++status_.updates;
  --pending_updates_;
}

void Trainer::measure() {
  next_metrics_ = next_multiple(status_.steps, config_.run.metrics_every_steps);
  update_status();
  for (TrainObserver* observer : observers_) observer->measured(status_);
}

Rollout& Trainer::evaluation_rollout(int episodes) {
  const int num_envs = evaluation_envs(episodes);
  if (!evaluation_rollout_ || evaluation_rollout_->size() != num_envs) {
    evaluation_rollout_ = make_rollout(config_, network_, device_, Purpose::kEvaluation, num_envs, threads_);
    evaluation_rules_ = make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kEvaluation, num_envs, 1);
  }
  return *evaluation_rollout_;
}

// Nothing if it was interrupted.
std::optional<Trainer::Results> Trainer::play(int episodes, std::uint32_t first_episode) {
  const Stopwatch stopwatch(status_.seconds_evaluating);
  const auto interrupted = [this] { return stop_requested_.load(); };
  Results results;
  Rollout& rollout = evaluation_rollout(episodes);
  const auto played = [&](ActionChoice choice) {
    return evaluate(rollout, episodes, choice, first_episode, interrupted, evaluation_rules_.get());
  };
  results.greedy = played(ActionChoice::kGreedy);
  if (!stop_requested_) results.sampled = played(ActionChoice::kSample);
  if (stop_requested_) return std::nullopt;
  return results;
}

std::vector<Scalar> Trainer::critic_loss_by_phase() {
  const Stopwatch stopwatch(status_.seconds_evaluating);
  const std::int64_t kept = replay_.episodes(), chosen = std::min(kept, EvaluationSummary::kPhaseEpisodes);
  std::vector<std::int64_t> indices;
  for (std::int64_t i = 0; i < chosen; ++i) indices.push_back(i * kept / chosen);
  if (!training_rules_)
    training_rules_ = make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kTraining, config_.run.num_envs, 1);
  const EvaluationMode evaluation_mode(*network_);
  const double alpha = last_losses_.empty() ? config_.learner.alpha : named(last_losses_, "alpha").item<double>();
  const std::vector<PhaseFigures> phases =
      figures_by_phase(replay_, indices, *training_rules_, *network_, alpha, config_.learner.gamma);
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
  const int episodes = config_.evaluation.episodes, environments = evaluation_envs(episodes);
  const auto episodes_per_environment = static_cast<std::uint32_t>((episodes + environments - 1) / environments);
  const std::optional<Results> results = play(episodes, evaluations_ * episodes_per_environment);
  if (!results) return false;
  ++evaluations_;
  next_evaluation_ = next_multiple(status_.steps, config_.evaluation.every_steps);

  const EvaluationSummary summary{.environment_steps = status_.steps,
                                  .updates = status_.updates,
                                  .episodes = episodes,
                                  .greedy = summarize(results->greedy),
                                  .sampled = summarize(results->sampled),
                                  .greedy_decisions = decision_rates(results->greedy),
                                  .sampled_decisions = decision_rates(results->sampled),
                                  .critic_loss_by_phase = critic_loss_by_phase()};
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

bool Trainer::finished() {
  const double goal = config_.evaluation.stop_at_success;
  const bool collects = phase_ == Phase::kRandom || phase_ == Phase::kCollect;
  const bool solved = goal > 0 && status_.last_evaluation && status_.last_evaluation->greedy.success >= goal;
  status_.stopped = stop_requested_                                  ? StopReason::kRequest
                    : solved                                         ? StopReason::kSolved
                    : time_is_up()                                   ? StopReason::kTime
                    : collects && status_.steps >= config_.run.steps ? StopReason::kSteps
                                                                     : StopReason::kNone;
  return status_.stopped != StopReason::kNone;
}

void Trainer::save_if_due() {
  const double minutes = config_.checkpoint.every_minutes;
  const bool by_steps = config_.checkpoint.every_steps > 0 && status_.steps >= next_save_;
  const bool by_time = minutes > 0 && seconds_between(last_save_, Clock::now()) >= 60 * minutes;
  if (by_steps || by_time || save_requested_) save();
}

void Trainer::check_finite() {
  const Faults faults = learner_->faults();
  status_.skipped_updates = faults.count;
  if (faults.count > 0 && config_.run.on_nan == OnNan::kStop)
    throw std::runtime_error("update " + std::to_string(faults.first_update) + ": " + faults.first_tensor +
                             " is not finite; it changed no weights");
}

void Trainer::save() {
  save_requested_ = false;
  check_finite();
  update_status();
  StateArchive archive;
  visit_state(archive);
  for (TrainObserver* observer : observers_) observer->save(status_, archive);
  last_save_ = Clock::now();
  if (config_.checkpoint.every_steps > 0) next_save_ = next_multiple(status_.steps, config_.checkpoint.every_steps);
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

// The same on every device. Older versions named where a run acted, and acted on a GPU in rounds of one episode each.
void Trainer::visit_rollout(StateArchive& archive) {
  archive.within("replay", [&] {
    replay_.visit_state(archive, [this] {
      return make_cpu_vec_env(config_.task, config_.run.seed, Purpose::kTraining, config_.run.num_envs, 1);
    });
  });
  archive.object("replay_random", replay_random_);
  archive.within("collector", [&] {
    archive.object("random", random_);
    std::vector<std::uint8_t> at_random;  // older versions let episodes that began at random go on so
    if (archive.restoring() && archive.holds("at_random")) archive.array("at_random", at_random);
    rollout_->visit_state(archive);
    if (phase_ != Phase::kRandom && std::ranges::find(at_random, 1) != at_random.end()) rollout_->abandon_running();
  });
}

void Trainer::visit_state(StateArchive& archive) {
  if (archive.restoring() && archive.holds("acts_in")) {
    std::string place;
    archive.value("acts_in", place);
    if (place != "environments on the CPU")
      archive.refuse("acts_in", "an older version wrote it with " + place + ", of which the state was another");
  }
  int phase = static_cast<int>(phase_);
  archive.value("phase", phase);
  if (phase < 0 || phase > static_cast<int>(Phase::kMeasure)) archive.refuse("phase", "there is no such phase");
  phase_ = static_cast<Phase>(phase);
  archive.within("experience", [&] { visit_rollout(archive); });
  archive.within("learner", [&] { learner_->visit_state(archive); });
  archive.value("steps", status_.steps);
  archive.value("updates", status_.updates);
  archive.value("episodes", status_.episodes);
  archive.value("pending_updates", pending_updates_);
  archive.value("next_evaluation", next_evaluation_);
  archive.value("next_metrics", next_metrics_);
  archive.value("evaluations", evaluations_);
  if (std::min({status_.steps, status_.updates, status_.episodes, pending_updates_}) < 0)
    archive.refuse("steps", "a count is negative");
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

void Trainer::report_if_due() {
  if (seconds_between(last_report_, Clock::now()) < config_.run.report_seconds) return;
  last_report_ = Clock::now();
  update_status();
  for (TrainObserver* observer : observers_) observer->report(status_);
}

double Trainer::settled_steps() const {
  const double owed =
      config_.run.updates_per_step > 0 ? static_cast<double>(pending_updates_) / config_.run.updates_per_step : 0;
  return std::max(0.0, static_cast<double>(status_.steps) - owed);
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
  for (const auto& [name, value] : last_losses_) status_.losses.emplace_back(name, value.item<double>());
}

}  // namespace engram
