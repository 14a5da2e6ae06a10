#include "agents/run/training/run_share.h"

#include <algorithm>
#include <string>

#include "agents/play/evaluator.h"
#include "base/error.h"

namespace engram {
namespace {

std::int64_t part_of(std::int64_t count, const Ranks& ranks) { return (count + ranks.size() - 1) / ranks.size(); }

void check_enough(const char* key, std::int64_t value, const Ranks& ranks) {
  if (value < ranks.size())
    throw UserError(std::string(key) + " " + std::to_string(value) + " is of the whole run and cannot be dealt to " +
                    std::to_string(ranks.size()) + " ranks; it takes " + std::to_string(ranks.size()) + " or more");
}

}  // namespace

RunShare share_of(const Config& config, const Ranks& ranks) {
  check_enough("run.num_envs", config.run.num_envs, ranks);
  if (!config.learner.iterations()) check_enough("replay.batch_episodes", config.replay.batch_episodes, ranks);
  ReplayOptions replay = config.replay;
  replay.capacity_steps = part_of(replay.capacity_steps, ranks);
  replay.minimum_episodes = part_of(replay.minimum_episodes, ranks);
  replay.batch_episodes = static_cast<int>(block_of(replay.batch_episodes, ranks.rank(), ranks.size()).count);
  return {block_of(config.run.num_envs, ranks.rank(), ranks.size()), replay};
}

EvaluationShare evaluation_share(int episodes, int rank, int size) {
  const std::int64_t environments = evaluation_envs(episodes);
  const Block own = block_of(environments, rank, size);
  const std::int64_t with_one_more = std::clamp(episodes % environments - own.first, std::int64_t{0}, own.count);
  return {own, static_cast<int>(own.count * (episodes / environments) + with_one_more)};
}

}  // namespace engram
