#include "envs/tasks/popgym/autoencode.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

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

std::vector<ColourMeaning> Autoencode::colours(const Params&) { return cards::suit_colours(); }

std::string Autoencode::phase(const Params& params, const State& state) {
  return plays(params, state) ? "play" : "watch";
}

std::vector<VectorPart> Autoencode::vector_parts(const Params& params) {
  std::vector<VectorPart> parts = {one_hot_part("mode", {"play", "watch"}), cards::suit_part("card")};
  if (params.full_state) parts.push_back(cards::suit_part("right answer"));
  return parts;
}

std::vector<TaskPreset> Autoencode::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}}, {{"num_decks", "2"}}, {{"num_decks", "3"}});
}

template TaskEntry task_entry<Autoencode>();

}  // namespace engram
