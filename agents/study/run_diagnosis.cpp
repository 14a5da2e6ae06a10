#include "agents/study/run_diagnosis.h"

#include <memory>
#include <utility>

#include "agents/play/evaluator.h"
#include "agents/study/kept_episodes.h"
#include "agents/study/metrics_summary.h"

namespace engram {
namespace {

// The algorithm that the agent learnt by, with what it had learnt itself when the weights were taken.
std::unique_ptr<Algorithm> algorithm_of(const RunDirectory& run, const TrainedAgent& agent,
                                        std::int64_t weights_steps) {
  auto algorithm = agent.config.learner.make_algorithm(*agent.network);
  for (const auto& [steps, alpha] : summarize_metrics(run.metrics_file()).temperatures)
    if (steps <= weights_steps) algorithm->recall({{"alpha", alpha}}, "learnt, at step " + std::to_string(steps));
  return algorithm;
}

}  // namespace

RunDiagnosis diagnose_run(const RunDirectory& run, const TrainedAgent& agent, const DiagnosisRequest& request,
                          const std::function<void(const std::string&)>& warn) {
  const torch::Device device = agent.device();
  const std::int64_t weights_steps = read_weights_age(run, agent.weights).environment_steps;
  const std::unique_ptr<Algorithm> algorithm = algorithm_of(run, agent, weights_steps);
  const auto look_into = [&](const KeptEpisodes& episodes) {
    const EvaluationMode mode(*agent.network);
    return diagnose(episodes, *agent.network, *algorithm);
  };
  const auto played = [&](ActionChoice choice) {
    return look_into(play_and_keep(agent.config, agent.network, device, request.threads, request.episodes, choice,
                                   kFirstUnseenEpisode));
  };
  Diagnosis greedy = played(ActionChoice::kGreedy), sampled = played(ActionChoice::kSample);
  RunDiagnosis found{weights_steps, algorithm->judges_by(), std::move(greedy), std::move(sampled), {}, {}};
  if (!agent.elsewhere.empty()) {
    found.why_none_replayed = "they are of the task as it was in training";
    return found;
  }
  const KeptEpisodes replayed = keep_replayed(run, agent.config, weights_steps, request.episodes, device, warn);
  if (replayed.size() > 0)
    found.replayed = look_into(replayed);
  else
    found.why_none_replayed = "no checkpoint of the run has episodes from before the weights";
  return found;
}

}  // namespace engram
