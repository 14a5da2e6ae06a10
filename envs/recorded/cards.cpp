// Recorded episodes of the card games.
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "envs/recorded/piles.h"
#include "envs/recorded/play.h"
#include "envs/recorded/replay.h"
#include "envs/tasks/popgym/autoencode.h"
#include "envs/tasks/popgym/count_recall.h"
#include "envs/tasks/popgym/repeat_first.h"
#include "envs/tasks/popgym/repeat_previous.h"

namespace engram::recorded {
namespace {

// An observation is recorded as a number for each of its parts, which take these numbers of values. Ours has a one-hot
// code for each, one after the other.
Recording<float> read_card_recording(const Json& episode, int num_actions, const std::vector<int>& widths) {
  constexpr int kMostSteps = 2 * cards::kMaxDecks * cards::kDeckCards;
  const std::size_t length = static_cast<std::size_t>(get_int(episode, "length", 1, kMostSteps));
  Recording<float> recording;
  recording.actions = get_actions(episode, length, num_actions);
  const float answer_reward = get_float(episode, "answer_reward");
  for (const int sign : get_symbols(episode, "rewards", length, {"-0+"}))
    recording.rewards.push_back(static_cast<float>(sign - 1) * answer_reward);
  std::vector<std::string> allowed;
  for (const int width : widths) allowed.push_back(digits(width));
  for (std::size_t i = 0; const int value : get_symbols(episode, "obs", (length + 1) * widths.size(), allowed)) {
    const int width = widths[i++ % widths.size()];
    for (int at = 0; at < width; ++at) recording.observations.push_back(at == value ? 1.0f : 0.0f);
  }
  recording.success = get_bool(episode, "success");
  return recording;
}

template <class Game>
typename Game::Options read_decks(const Json& episode) {
  typename Game::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, cards::kMaxDecks);
  return options;
}

// widths: as read_card_recording() has them.
template <class Game>
std::optional<std::string> replay_suits(const Json& episode, const typename Game::Options& options,
                                        const std::vector<int>& widths) {
  const typename Game::Params params = Game::make_params(options, 0, Purpose::kTest);
  const auto suits = read_pile<cards::SuitPile>(episode, "cards", params.cards, cards::kSuits);
  return play<Game>(params, Game::start(suits), read_card_recording(episode, Game::kNumActions, widths));
}

}  // namespace

std::optional<std::string> replay_repeat_first(const Json& episode) {
  return replay_suits<RepeatFirst>(episode, read_decks<RepeatFirst>(episode), {cards::kSuits});
}

std::optional<std::string> replay_repeat_previous(const Json& episode) {
  auto options = read_decks<RepeatPrevious>(episode);
  options.k = get_int(episode, "k", 1, options.num_decks * cards::kDeckCards - 1);
  return replay_suits<RepeatPrevious>(episode, options, {cards::kSuits});
}

std::optional<std::string> replay_autoencode(const Json& episode) {
  return replay_suits<Autoencode>(episode, read_decks<Autoencode>(episode), {Autoencode::kModes, cards::kSuits});
}

std::optional<std::string> replay_count_recall(const Json& episode) {
  CountRecall::Options options;
  options.num_decks = get_int(episode, "num_decks", 1, CountRecall::kMaxDecks);
  options.kind = static_cast<CardKind>(get_word(episode, "kind", {"colours", "suits", "ranks"}));
  const CountRecall::Params params = CountRecall::make_params(options, 0, Purpose::kTest);
  const auto dealt = read_pile<CountRecall::KindPile>(episode, "cards", params.cards, params.kinds);
  const auto named = read_pile<CountRecall::KindPile>(episode, "queries", params.cards, params.kinds);
  return play<CountRecall>(
      params, CountRecall::start(dealt, named),
      read_card_recording(episode, CountRecall::num_actions(params), {params.kinds, params.kinds}));
}

}  // namespace engram::recorded
