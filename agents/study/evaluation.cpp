#include "agents/study/evaluation.h"

#include <memory>
#include <utility>

#include "agents/study/trace.h"
#include "base/error.h"
#include "storage/files.h"

namespace engram {
namespace {

AgentEvaluation::Played played(std::vector<EpisodeResult> episodes) {
  const MeasuredEpisodes measured = measure(episodes);
  const std::optional<DecisionRates> decisions = decision_rates(episodes);
  return {std::move(episodes), measured, decisions};
}

// What is kept of the run's best weights already, if it is of so many episodes; else what is to be kept from now on.
RangeEvaluations kept_evaluations(const RunDirectory& run, int episodes,
                                  const std::function<void(const std::string&)>& warn) {
  const auto [steps, updates] = read_weights_age(run, WhichWeights::kBest);
  try {
    if (auto kept = read_range_evaluations(run.path()); kept && kept->are_of(steps, updates, episodes)) return *kept;
  } catch (const UserError& error) {
    warn(std::string(error.what()) + "; it is made anew");
  }
  return {steps, updates, episodes, {}};
}

}  // namespace

AgentEvaluation evaluate_agent(const TrainedAgent& agent, const EvaluationRequest& request) {
  const Config& config = agent.config;
  const std::uint64_t seed = config.run.seed;
  const torch::Device device = agent.device();
  const int episodes = request.episodes;
  const auto rollout =
      make_rollout(config, agent.network, device, Purpose::kEvaluation, evaluation_envs(episodes), request.threads);
  std::unique_ptr<VecEnv> again;  // in which episodes are played once more, to look at them
  if (request.decisions || request.trace)
    again = make_cpu_vec_env(config.task, seed, Purpose::kEvaluation, rollout->size(), 1);
  const auto going_on = [&] {
    request.between_steps();
    return false;
  };
  const auto play = [&](ActionChoice choice) {
    return played(evaluate(*rollout, episodes, choice, request.first_episode, going_on,
                           request.decisions ? again.get() : nullptr));
  };
  if (!request.trace) {
    AgentEvaluation::Played greedy = play(ActionChoice::kGreedy);
    return {std::move(greedy), play(ActionChoice::kSample)};
  }
  ShownPolicy policy(*again, agent.network, compute_dtype(config, device), seed, kTrainingActions);
  Trace trace = record_trace(*rollout, *again, policy, episodes, ActionChoice::kGreedy, request.first_episode,
                             request.between_steps);
  return {played(std::move(trace.results)), play(ActionChoice::kSample), std::move(trace.tensors)};
}

MeasuredEpisodes measure(const std::vector<EpisodeResult>& episodes) {
  std::vector<double> returns;
  for (const EpisodeResult& episode : episodes) returns.push_back(episode.total_reward);
  return {wilson_interval(count_solved(episodes), static_cast<std::int64_t>(episodes.size())), mean_interval(returns)};
}

std::vector<RangePoint> evaluate_range(
    const RunDirectory& run, const RangeRequest& request,
    const std::function<void(const EvaluationRange::Value&, const RangePoint&)>& take,
    const std::function<void(const std::string&)>& warn) {
  const std::string& key = request.range.key;
  RangeEvaluations evaluations;
  if (request.keep) {
    remove_leftovers(run.path());
    evaluations = kept_evaluations(run, request.episodes, warn);
  }
  std::vector<RangePoint> points;
  for (const EvaluationRange::Value& value : request.range.values) {
    if (evaluations.find(key, value.number) == nullptr) {
      const TrainedAgent agent = load_trained_agent(run.path(), request.weights, request.device, {{key, value.text}});
      const auto [greedy, sampled, trace] =
          evaluate_agent(agent, {.episodes = request.episodes, .threads = request.threads});
      evaluations.points.push_back({key, value.number, greedy.measured, sampled.measured});
      if (request.keep) write_range_evaluations(run.path(), evaluations);
    }
    points.push_back(*evaluations.find(key, value.number));
    take(value, points.back());
  }
  return points;
}

}  // namespace engram
