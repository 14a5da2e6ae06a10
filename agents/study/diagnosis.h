// Diagnosis: why an agent does not solve a task that asks for memory. Of whole episodes: how often it decides and how
// often rightly; where in the task its critics err; whether they tell right decisions from wrong ones; and how long the
// backbone's output holds the cue.
//
// Everything is computed by the network as it learns, over whole episodes, but in evaluation mode. Row t of an episode
// of T steps is the moment of o_t, at which the agent takes a_t; t = 0 .. T-1.
#pragma once

#include <torch/torch.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "agents/act/network.h"
#include "agents/learn/algorithm.h"
#include "agents/study/kept_episodes.h"
#include "agents/study/linear_readout.h"

namespace engram {

// What the critics and the policy do while the task is in one of its phases.
struct PhaseFigures {
  std::string phase;
  std::int64_t steps = 0;
  double squared_error = 0;   // mean over the steps of StepFigures: the critic loss
  double error_share = 0;     // of the sum of squared errors over all phases; 0 where there is no error
  double entropy = 0;         // of the policy, nats; mean
  double absolute_value = 0;  // of StepFigures, such as |Q(h_t, a_t)|; mean
};

// The cue read from features h_t at one moment of every episode that has it.
struct CueReadout {
  std::optional<std::int64_t> lag;  // steps since the agent last saw the cue; none: the decision's phase began
  Readout readout;                  // of as many episodes
};

struct Diagnosis {
  // Fewer examples are not read out.
  static constexpr std::int64_t kFewestReadOut = 10;

  // Of a task that says what its decision is. The deciding step is the one that takes it.
  struct Decisions {
    std::int64_t right = 0, wrong = 0;
    // How well the value at the deciding step, Q(h_t, a_t) or V(h_t), tells right from wrong (area_under_curve()); none
    // unless both are there.
    std::optional<double> value_auc;
    std::string phase;  // in which most of them are taken; empty where there are none
  };

  std::int64_t episodes = 0, solved = 0;
  bool values_are_of_actions = true;  // ActionRule: all values are Q(h_t, a_t), or V(h_t)
  std::optional<Decisions> decisions;
  std::vector<PhaseFigures> phases;  // in the order in which they are first met
  // At lags 0, 1, 4, 16 and so on, by powers of 4, then where the decision's phase begins. Empty where the task has no
  // cue, or no two of them in these episodes. Classes are the task's cues (Cue), text and colour together.
  std::vector<CueReadout> cue;
};

// What `phases` of diagnose() has, of some of a store's episodes, which were played in environments like these: what is
// not finite is kept. The network is in evaluation mode, on the store's device.
std::vector<PhaseFigures> figures_by_phase(EpisodeStore& store, const std::vector<std::int64_t>& indices,
                                           VecEnv& environments, AgentNetwork& network, Algorithm& algorithm);

// Of at least one episode. The network is in evaluation mode, on the episodes' device; `algorithm` is that of its
// learner. Throws DivergedError if a value of the critics is not finite.
Diagnosis diagnose(const KeptEpisodes& episodes, AgentNetwork& network, Algorithm& algorithm);

}  // namespace engram
