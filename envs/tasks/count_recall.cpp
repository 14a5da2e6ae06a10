#include "envs/tasks/count_recall.h"

namespace engram {
namespace {

int kinds_of(CardKind kind) {
  return kind == CardKind::kColours ? cards::kColours : kind == CardKind::kSuits ? cards::kSuits : cards::kRanks;
}

// Black and red cards as the first and the last suit; ranks all alike.
Rgb kind_colour(int kinds, int kind) {
  if (kinds == cards::kRanks) return {25, 25, 25};
  return cards::suit_colour(kinds == cards::kColours && kind == 1 ? cards::kSuits - 1 : kind);
}

}  // namespace

void CountRecall::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, kMaxDecks);
  list.add("kind", kind, {{CardKind::kColours, "colours"}, {CardKind::kSuits, "suits"}, {CardKind::kRanks, "ranks"}},
           "what cards are told apart and counted by");
  list_full_state(list, full_state);
}

void CountRecall::Options::check() const { check_bounds(*this, kTaskSection); }

CountRecall::Params CountRecall::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, kinds_of(options.kind), cards::answer_reward(cards - 1), options.full_state};
}

void CountRecall::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, params.kinds, cards::kTable);
  for (int row = 0; const int kind : {state.dealt[state.score.t], state.named[state.score.t]})
    canvas.set(row++, kind, kind_colour(params.kinds, kind));
}

std::string CountRecall::phase(const Params&, const State&) { return "count"; }

}  // namespace engram
