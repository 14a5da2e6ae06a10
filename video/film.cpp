#include "video/film.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <utility>

#include "base/rng.h"
#include "envs/shown_observation.h"

namespace engram {

std::vector<std::int32_t> row_of(const Decision& decision) {
  if (decision.numbers.empty()) return {decision.action};
  std::vector<std::int32_t> row;
  for (const float number : decision.numbers) row.push_back(word_of(number));
  return row;
}

Decision decision_of(const ActionSpec& spec, std::span<const std::int32_t> row) {
  Decision decision;
  if (!spec.continuous())
    decision.action = row[0];
  else
    std::ranges::transform(row, std::back_inserter(decision.numbers), number_of);
  return decision;
}

Decide random_policy(std::uint64_t seed) {
  return [rng = Rng(seed, Purpose::kAction, 0, 0)](const VecEnv& environment) mutable {
    const ActionSpec& spec = environment.info().action;
    std::vector<std::int32_t> row(static_cast<std::size_t>(spec.words()));
    draw_action(spec, rng, row.data());
    Decision decision = decision_of(spec, row);
    if (spec.continuous()) return decision;
    const int num_actions = environment.info().num_actions();
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

    environment.step(row_of(*contents.decision));
    contents.last_numbers = contents.decision->numbers;
    if (contents.last_numbers.empty()) contents.last_action = contents.decision->action;
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
    environment.step(row_of(played.decisions.back()));
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
