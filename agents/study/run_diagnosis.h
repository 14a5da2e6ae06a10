// The diagnosis of a run's agent: of episodes that it plays afresh, and of ones that it has learnt from.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "agents/learn/algorithm.h"
#include "agents/run/trained/trained_agent.h"
#include "agents/study/diagnosis.h"
#include "storage/run/run_directory.h"

namespace engram {

struct DiagnosisRequest {
  int episodes = 100;  // to play greedily, to play with sampled actions, and to take from the replay
  int threads = 1;     // of the environments
};

struct RunDiagnosis {
  std::int64_t weights_steps = 0;  // of the run, when its weights were written
  std::vector<JudgedBy> judged_by;
  Diagnosis greedy, sampled;          // of the episodes that evaluate_agent() plays
  std::optional<Diagnosis> replayed;  // of the newest checkpoint, from before the weights
  std::string why_none_replayed;      // in a line, where there are none
};

// `agent` is the run's (load_trained_agent()). `warn` is told, in a line, of a checkpoint that is damaged and passed
// over. Throws as read_weights_age(), diagnose() and keep_replayed() do.
RunDiagnosis diagnose_run(const RunDirectory& run, const TrainedAgent& agent, const DiagnosisRequest& request,
                          const std::function<void(const std::string&)>& warn);

}  // namespace engram
