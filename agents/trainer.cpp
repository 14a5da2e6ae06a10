#include "agents/trainer.h"

#include <algorithm>
#include <cmath>

#include "agents/evaluator.h"
#include "agents/trained_agent.h"

namespace engram {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kRecentEpisodes = 50;

double seconds_between(Clock::time_point from, Clock::time_point to) {
  return std::chrono::duration<double>(to - from).count();
}

// Adds the seconds of its life to a total.
class Stopwatch {
 public:
  explicit Stopwatch(double& total) : total_(total) {}
  ~Stopwatch() { total_ += seconds_between(begin_, Clock::now()); }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

 private:
  double& total_;
  const Clock::time_point begin_ = Clock::now();
};

bool better_or_equal(const EvaluationSummary& a, const EvaluationSummary& b) {
  return std::pair(a.success, a.mean_return) >= std::pair(b.success, b.mean_return);
}

}  // namespace

Trainer::Trainer(const Config& config, torch::Device device, int threads)
    : config_(config),
      network_(make_network(config, config.task.info(), device)),
      experience_(make_experience(config, network_, device, threads)),
      learner_(config.learner, network_),
      next_evaluation_(config.evaluation.every_steps) {
  status_.total_steps = config.run.steps;
}

TrainStatus Trainer::run(const std::vector<TrainObserver*>& observers) {
  observers_ = observers;
  start_ = learning_start_ = last_report_ = Clock::now();
  network_->train();

  collect_random_episodes();
  while (!finished()) {
    collect_episode();
    learn();
    if (evaluation_due()) evaluate_policy();
  }
  const bool evaluated = status_.last_evaluation && status_.last_evaluation->environment_steps == status_.steps;
  if (!evaluated && status_.stopped != StopReason::kRequest) evaluate_policy();

  update_status();
  for (TrainObserver* observer : observers_) observer->finished(status_, *network_);
  return status_;
}

void Trainer::collect_random_episodes() {
  while (status_.episodes < config_.run.random_episodes && !finished()) {
    collect(Acting::kRandom);
  }
  random_steps_ = status_.steps;
  learning_start_ = Clock::now();
}

void Trainer::collect(Acting acting) {
  status_.steps += experience_->collect(acting, [this](const EpisodeResult& episode) { add_episode(episode); });
  report_if_due();
}

// Until at least one episode ends.
void Trainer::collect_episode() {
  const Stopwatch stopwatch(status_.seconds_acting);
  const std::int64_t before = status_.episodes;
  while (status_.episodes == before && !finished()) {
    collect(Acting::kPolicy);
  }
}

void Trainer::add_episode(const EpisodeResult& episode) {
  ++status_.episodes;
  recent_.emplace_back(episode.total_reward, episode.success);
  if (recent_.size() > kRecentEpisodes) recent_.pop_front();
  pending_updates_ +=
      static_cast<std::int64_t>(std::ceil(config_.run.updates_per_step * static_cast<double>(episode.steps)));
}

void Trainer::learn() {
  const Stopwatch stopwatch(status_.seconds_learning);
  for (; pending_updates_ > 0 && !interrupted(); --pending_updates_) {
    last_losses_ = learner_.update(experience_->sample());
    ++status_.updates;
    report_if_due();
  }
  if (last_losses_) last_losses_->critic_loss.item();  // waits for a GPU, whose work would count as acting
}

void Trainer::evaluate_policy() {
  const int episodes = config_.evaluation.episodes, environments = experience_->evaluation_environments();
  const auto episodes_per_environment = static_cast<std::uint32_t>((episodes + environments - 1) / environments);
  const std::vector<EpisodeResult> results = [&] {
    const Stopwatch stopwatch(status_.seconds_evaluating);
    return experience_->evaluate(episodes, evaluations_++ * episodes_per_environment);
  }();
  next_evaluation_ = (status_.steps / config_.evaluation.every_steps + 1) * config_.evaluation.every_steps;

  // Counted and divided once: a sum of fractions may miss the 1 that stop_at_success waits for.
  int solved = 0;
  double total_reward = 0;
  for (const EpisodeResult& result : results) {
    solved += result.success ? 1 : 0;
    total_reward += result.total_reward;
  }
  const EvaluationSummary summary{status_.steps, episodes, static_cast<double>(solved) / episodes,
                                  total_reward / episodes};
  const bool best = !status_.best_evaluation || better_or_equal(summary, *status_.best_evaluation);
  status_.last_evaluation = summary;
  if (best) status_.best_evaluation = summary;
  update_status();
  for (TrainObserver* observer : observers_) observer->evaluated(status_, *network_, best);
}

bool Trainer::time_is_up() const {
  return config_.run.max_seconds > 0 && seconds_between(start_, Clock::now()) >= config_.run.max_seconds;
}

bool Trainer::finished() {
  const double goal = config_.evaluation.stop_at_success;
  const bool solved = goal > 0 && status_.last_evaluation && status_.last_evaluation->success >= goal;
  status_.stopped = stop_requested_                      ? StopReason::kRequest
                    : solved                             ? StopReason::kSolved
                    : time_is_up()                       ? StopReason::kTime
                    : status_.steps >= config_.run.steps ? StopReason::kSteps
                                                         : StopReason::kNone;
  return status_.stopped != StopReason::kNone;
}

void Trainer::report_if_due() {
  if (seconds_between(last_report_, Clock::now()) < config_.run.report_seconds) return;
  last_report_ = Clock::now();
  update_status();
  for (TrainObserver* observer : observers_) observer->report(status_);
}

void Trainer::update_status() {
  const auto now = Clock::now();
  const double learning_seconds = seconds_between(learning_start_, now);
  status_.seconds = seconds_between(start_, now);
  if (learning_seconds > 0) {
    status_.steps_per_second = static_cast<double>(status_.steps - random_steps_) / learning_seconds;
    status_.updates_per_second = static_cast<double>(status_.updates) / learning_seconds;
  }

  // Steps whose updates are still to come are not done yet.
  const double owed =
      config_.run.updates_per_step > 0 ? static_cast<double>(pending_updates_) / config_.run.updates_per_step : 0;
  const double settled = std::max(0.0, static_cast<double>(status_.steps) - owed);
  const double total = static_cast<double>(status_.total_steps);
  status_.done = std::min(1.0, settled / total);
  status_.seconds_left = settled > 0 ? learning_seconds * std::max(0.0, total - settled) / settled : 0;
  if (config_.run.max_seconds > 0) {
    status_.seconds_left = std::min(status_.seconds_left, std::max(0.0, config_.run.max_seconds - status_.seconds));
    status_.done = std::max(status_.done, std::min(1.0, status_.seconds / config_.run.max_seconds));
  }

  status_.recent_return = status_.recent_success = 0;
  for (const auto& [total_reward, success] : recent_) {
    status_.recent_return += total_reward / static_cast<double>(recent_.size());
    status_.recent_success += (success ? 1.0 : 0.0) / static_cast<double>(recent_.size());
  }
  if (last_losses_) {
    const auto value = [](const torch::Tensor& tensor) { return tensor.item<double>(); };
    const LossReport& losses = *last_losses_;
    status_.losses = {value(losses.critic_loss), value(losses.actor_loss), value(losses.entropy),
                      value(losses.alpha),       value(losses.mean_q),     value(losses.gradient_norm)};
  }
}

}  // namespace engram
