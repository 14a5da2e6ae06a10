#include "envs/tasks/repeat_first.h"

namespace engram {

void RepeatFirst::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, cards::kMaxDecks);
  list_full_state(list, full_state);
}

void RepeatFirst::Options::check() const { check_bounds(*this, kTaskSection); }

RepeatFirst::Params RepeatFirst::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, cards::answer_reward(cards - 1), options.full_state};
}

void RepeatFirst::draw(const Params&, const State& state, Canvas& canvas) {
  cards::draw_suits({state.suits[state.score.t], state.suits[0]}, canvas);
}

std::string RepeatFirst::phase(const Params&, const State& state) {
  return state.score.t == 0 ? "first card" : "repeat";
}

std::optional<Cue> RepeatFirst::cue(const Params& params, const State& state) {
  if (params.full_state || state.score.t == 0) return {};
  return Cue{kActionNames[static_cast<std::size_t>(state.suits[0])], cards::suit_colour(state.suits[0])};
}

}  // namespace engram
