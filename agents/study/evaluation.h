// Evaluating a trained agent, where it was trained and elsewhere.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agents/play/evaluator.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/evaluation_range.h"
#include "agents/study/statistics.h"
#include "storage/run/run_directory.h"
#include "storage/tensors/safetensors.h"

namespace engram {

struct EvaluationRequest {
  int episodes = 100;  // greedy ones, and as many sampled ones
  int threads = 1;     // of the environments
  std::uint32_t first_episode = kFirstUnseenEpisode;
  bool decisions = false;                       // whether to ask of each episode if it took the task's decision
  bool trace = false;                           // of the greedy episodes
  std::function<void()> between_steps = [] {};  // of the environments; what it throws ends the evaluation
};

struct AgentEvaluation {
  struct Played {
    std::vector<EpisodeResult> episodes;  // in the order of evaluate()
    MeasuredEpisodes measured{};
    std::optional<DecisionRates> decisions = {};  // none where nobody asked, or the task does not say
  };

  Played greedy, sampled;
  std::optional<TensorMap> trace = {};  // trace.h
};

// Plays as training's own evaluations do, on the network's device. The program's state, and the agent's, is left as it
// was. Throws std::invalid_argument if episodes < 1.
AgentEvaluation evaluate_agent(const TrainedAgent& agent, const EvaluationRequest& request);

MeasuredEpisodes measure(const std::vector<EpisodeResult>& episodes);

struct RangeRequest {
  EvaluationRange range;
  WhichWeights weights = WhichWeights::kBest;
  torch::Device device = torch::kCPU;
  int episodes = 100, threads = 1;
  // Of the best weights: takes what evaluations.json of the run has of them and so many episodes, and keeps there what
  // it lacks.
  bool keep = false;
};

// Evaluates the agent of a run at each value of the range, and passes each point to `take` as it comes, in the range's
// order. `warn` is told, in a line, of an evaluations.json that is damaged and made anew. Throws UserError as
// load_trained_agent(), check_range() and write_range_evaluations() do.
std::vector<RangePoint> evaluate_range(
    const RunDirectory& run, const RangeRequest& request,
    const std::function<void(const EvaluationRange::Value&, const RangePoint&)>& take,
    const std::function<void(const std::string&)>& warn);

}  // namespace engram
