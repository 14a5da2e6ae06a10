#include "envs/tasks/autoencode.h"

namespace engram {

void Autoencode::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, cards::kMaxDecks);
  list_full_state(list, full_state);
}

void Autoencode::Options::check() const { check_bounds(*this, kTaskSection); }

Autoencode::Params Autoencode::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, cards::answer_reward(cards), options.full_state};
}

void Autoencode::draw(const Params& params, const State& state, Canvas& canvas) {
  const bool in_sight = state.score.t < params.cards;
  cards::draw_suits({in_sight ? shown(params, state) : cards::kNoAnswer, right(params, state)}, canvas);
}

std::string Autoencode::phase(const Params& params, const State& state) {
  return plays(params, state) ? "play" : "watch";
}

}  // namespace engram
