#include "experiments/plan/random_play.h"

#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "agents/run/trained/trained_agent.h"
#include "envs/vec/vec_env.h"

namespace engram {

RandomPlay play_at_random(const TaskConfig& task, int episodes) {
  if (episodes < 1) throw std::invalid_argument("random play of " + std::to_string(episodes) + " episodes");
  constexpr std::uint64_t kSeed = 0;
  const auto environment = make_cpu_vec_env(task, kSeed, Purpose::kEvaluation, 1, 1);
  const ActionSpec& spec = environment->info().action;
  std::vector<std::int32_t> action(static_cast<std::size_t>(spec.words()));
  Rng random(kSeed, Purpose::kAction, 0, kFirstUnseenEpisode);
  std::vector<double> returns;
  std::int64_t solved = 0;
  environment->reset_all(kFirstUnseenEpisode);
  for (double total = 0; static_cast<int>(returns.size()) < episodes;) {
    draw_action(spec, random, action.data());
    environment->step(action);
    total += environment->reward_N()[0];
    if (environment->end_N()[0] == End::kNone) continue;
    solved += environment->success_N()[0];
    returns.push_back(total);
    total = 0;
    environment->reset_finished();
  }
  return {episodes, wilson_interval(solved, episodes), mean_interval(returns)};
}

}  // namespace engram
