#include "agents/learn/experience/experience.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "agents/learn/experience/iterations.h"
#include "agents/learn/experience/replay.h"

namespace engram {

Experience::Experience(EpisodeStore store, std::uint64_t seed, int rank)
    : store_(std::move(store)), seed_(seed), rank_(static_cast<std::uint32_t>(rank)), random_(draws_of(0)) {}

void Experience::visit_own_state(StateArchive& archive,
                                 const std::function<std::unique_ptr<VecEnv>()>& make_environments) {
  archive.within("replay", [&] { store_.visit_state(archive, make_environments); });
  archive.object("replay_random", random_);
}

std::unique_ptr<Experience> make_experience(const Config& config, const RunShare& share, const Ranks& ranks,
                                            torch::Device device) {
  if (const std::optional<IterationOptions> iterations = config.learner.iterations())
    return std::make_unique<Iterations>(*iterations, config.task.info(), share.environments.count, config.run.seed,
                                        ranks.rank(), device);
  return std::make_unique<Replay>(config, share, ranks.rank(), device);
}

}  // namespace engram
