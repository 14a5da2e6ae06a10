// What the figures of a diagnosis mean, in a few sentences.
#pragma once

#include <optional>
#include <string>

#include "agents/study/diagnosis.h"
#include "agents/study/run_diagnosis.h"

namespace engram {

// `replayed`: null where no learnt episodes were looked at; `chance`: the success of an agent that guesses what it
// should remember (TaskInfo); `actions`: the task's; `surer_by`: the learner's (LearnerConfig). Says where the chain
// from seeing a cue to acting on it breaks (docs/use/diagnosing.md): whether it decides at all, whether its memory
// holds the cue, whether its critics judge by it, and what else its figures show. A rule of thumb: a share is one of a
// handful of words.
std::string meaning_of(const Diagnosis& greedy, const Diagnosis& sampled, const Diagnosis* replayed,
                       std::optional<double> chance, const ActionSpec& actions, const std::string& surer_by);
// Of the diagnosis of this agent's run.
std::string meaning_of(const RunDiagnosis& findings, const TrainedAgent& agent);

}  // namespace engram
