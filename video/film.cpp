#include "video/film.h"

#include <algorithm>
#include <cstddef>
#include <optional>
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

PlayedDecisions play_decisions(VecEnv& environment, const Decide& decide, int most_steps) {
  PlayedDecisions played;
  std::optional<int> turning_point;
  const auto steps = [&] { return static_cast<int>(played.decisions.size()); };
  while (environment.end_N()[0] == End::kNone && steps() < most_steps) {
    played.decisions.push_back(decide(environment));
    const std::int32_t action = played.decisions.back().action;
    environment.step({&action, 1});
    if (!turning_point && environment.decided(0).value_or(environment.reward_N()[0] > 0)) turning_point = steps();
  }
  played.ended = environment.end_N()[0] != End::kNone;
  played.success = environment.success_N()[0] != 0;
  played.turning_point = turning_point.value_or(steps());
  return played;
}

FilmCut film_cut(int first, int last, int most) {
  const int gaps = std::max(most, 2) - 1;
  return {.first = first, .stride = std::max(1, (last - first + gaps - 1) / gaps)};
}

}  // namespace engram
