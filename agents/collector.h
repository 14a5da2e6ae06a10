// Collector: VecEnv + Policy -> whole episodes. Environments run in lockstep; a row whose episode ends
// starts its next one at once, with fresh memory.
#pragma once

#include <functional>

#include "agents/episode.h"
#include "agents/policy.h"
#include "base/rng.h"
#include "envs/vec_env.h"

namespace engram {

class Collector {
 public:
  // `random` draws the actions of collect_random.
  Collector(VecEnv& environments, Policy& policy, Rng random);

  // Steps all environments once with sampled actions; passes every episode that ended to `finished`, in row order.
  void step(const std::function<void(Episode)>& finished);
  // The same with uniformly random actions. A row's memory sees nothing of them: the policy starts a row's
  // next episode fresh.
  void step_random(const std::function<void(Episode)>& finished);

 private:
  VecEnv& environments_;
  Policy& policy_;
  Rng random_;
  std::vector<Episode> running_N_;  // the episode under way in each row
};

}  // namespace engram
