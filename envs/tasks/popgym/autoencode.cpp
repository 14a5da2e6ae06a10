#include "envs/tasks/popgym/autoencode.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

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

std::vector<VectorPart> Autoencode::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {one_hot_part("mode", {"play", "watch"}), cards::suit_part("card")},
                         {cards::suit_part("right answer")});
}

std::vector<TaskPreset> Autoencode::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}}, {{"num_decks", "2"}}, {{"num_decks", "3"}});
}

template TaskEntry task_entry<Autoencode>();

}  // namespace engram
