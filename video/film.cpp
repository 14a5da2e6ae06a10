#include "video/film.h"

#include <stdexcept>
#include <utility>

#include "base/rng.h"
#include "envs/shown_observation.h"

namespace engram {

Decide random_policy(std::uint64_t seed) {
  return [rng = Rng(seed, Purpose::kAction, 0, 0)](const VecEnv& environment) mutable {
    const int num_actions = environment.info().num_actions();
    Decision decision;
    decision.action = static_cast<int>(rng.below(static_cast<std::uint32_t>(num_actions)));
    decision.probabilities.assign(static_cast<std::size_t>(num_actions), 1.0f / static_cast<float>(num_actions));
    return decision;
  };
}

FilmedEpisode film_episode(const TaskConfig& task, VecEnv& environment, const Decide& decide, int episode, int episodes,
                           const std::function<void(const FrameContents&)>& show, int most_steps) {
  if (environment.size() != 1) throw std::invalid_argument("film_episode: films one environment");
  FrameContents contents;
  contents.episode = episode;
  contents.episodes = episodes;
  while (true) {
    const bool ended = environment.end_N()[0] != End::kNone;
    const auto observation = environment.observation_N();
    contents.phase = environment.phase(0);
    contents.cue = environment.cue(0);
    environment.draw(0, contents.board);
    contents.observation.assign(observation.begin(), observation.end());
    contents.seen = show_observation(task, observation);
    if (ended || contents.step == most_steps) {
      const bool success = environment.success_N()[0] != 0;
      contents.decision.reset();
      if (ended) contents.outcome = EpisodeOutcome{success, contents.total_reward};
      show(contents);
      return {contents.step, contents.total_reward, success};
    }
    contents.decision = decide(environment);
    contents.has_policy = !contents.decision->probabilities.empty();
    contents.memory = std::move(contents.decision->memory);
    show(contents);

    const std::int32_t action = contents.decision->action;
    environment.step({&action, 1});
    contents.last_action = action;
    contents.last_reward = environment.reward_N()[0];
    contents.total_reward += contents.last_reward;
    ++contents.step;
  }
}

}  // namespace engram
