// Collector: VecEnv + Policy -> whole episodes. Environments run in lockstep; a row whose episode ends
// starts its next one at once, with fresh memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "agents/episode.h"
#include "agents/policy.h"
#include "base/rng.h"
#include "envs/vec_env.h"
#include "storage/state_archive.h"

namespace engram {

class Collector {
 public:
  // Starts episode 0 in every environment. `random` draws the actions of step_random. Environments and policy must
  // outlive the collector and are stepped by nobody else.
  Collector(VecEnv& environments, Policy& policy, Rng random);

  // Steps all environments once with sampled actions; passes every episode that ended to `finished`, in row order.
  void step(const std::function<void(Episode)>& finished);
  // The same with uniformly random actions. An episode that has had such a step goes on at random to its end, in
  // step() as well, because the policy's memory has not seen all of it.
  void step_random(const std::function<void(Episode)>& finished);

  // Includes the state of environments and policy. Restoring plays the unfinished episodes again.
  void visit_state(StateArchive& archive);

 private:
  void advance(const std::function<void(Episode)>& finished);
  void append_observation(int row);
  void begin_episode(int row, std::uint32_t number);
  std::int32_t random_action();

  VecEnv& environments_;
  Policy& policy_;
  Rng random_;
  std::vector<Episode> running_N_;      // the episode under way in each row
  std::vector<std::uint8_t> random_N_;  // 1: that episode goes on at random
  std::vector<std::int32_t> action_N_;  // of the step under way
};

}  // namespace engram
