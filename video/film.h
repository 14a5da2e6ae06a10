// Filming: plays episodes in an environment and hands every moment to whoever shows it. An episode of which it is to be
// known first how it went, to film it, or a part of it, or not, is played twice: the rules give it again.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

#include "envs/vec/vec_env.h"
#include "video/frame_painter.h"

namespace engram {

// Reads the current observation of the (only) environment, and says what to do.
using Decide = std::function<Decision(const VecEnv& environment)>;

// The row of a decision's action (envs/action.h).
std::vector<std::int32_t> row_of(const Decision& decision);

// To take that action.
Decision decision_of(const ActionSpec& spec, std::span<const std::int32_t> row);

// Uniformly random actions.
Decide random_policy(std::uint64_t seed);

struct FilmedEpisode {
  int steps;
  double total_reward;
  bool success;
};

// Plays one episode of `task` and shows the moments t = 0 .. T, the last with its outcome. The environment (N = 1),
// which is of the task, must stand at the start of an episode; it is left at its end, or after `most_steps`, which then
// has no outcome. `episode` of `episodes`, from 1, is what the frames say.
FilmedEpisode film_episode(const TaskConfig& task, VecEnv& environment, const Decide& decide, int episode, int episodes,
                           const std::function<void(const FrameContents&)>& show,
                           int most_steps = std::numeric_limits<int>::max());

// An episode of T steps, decision by decision.
struct PlayedDecisions {
  std::vector<Decision> decisions;  // T
  bool ended = false;               // or it was left
  bool success = false;
  // Steps until what the episode is about has happened: its decision, in a task that says when it is taken
  // (VecEnv::decided), else the first reward above 0; T where it has not happened.
  int turning_point = 0;
};

// Plays one episode, or `most_steps` of it, without looking at the board. The environment (N = 1) must stand at its
// start.
PlayedDecisions play_decisions(VecEnv& environment, const Decide& decide,
                               int most_steps = std::numeric_limits<int>::max());

// Which moments of an episode a film shows: each `stride`-th from `first` on, and the last.
struct FilmCut {
  int first = 0;
  int stride = 1;

  bool shows(int step, int last) const { return step >= first && ((step - first) % stride == 0 || step == last); }
};

// The cut from `first` to `last` of as many moments as there may be, `most` (two at least).
FilmCut film_cut(int first, int last, int most);

}  // namespace engram
