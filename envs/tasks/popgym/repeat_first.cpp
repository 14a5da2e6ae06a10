#include "envs/tasks/popgym/repeat_first.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

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

std::vector<VectorPart> RepeatFirst::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {cards::suit_part("card")}, {cards::suit_part("first card")});
}

std::vector<TaskPreset> RepeatFirst::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}}, {{"num_decks", "8"}}, {{"num_decks", "16"}});
}

template TaskEntry task_entry<RepeatFirst>();

}  // namespace engram
