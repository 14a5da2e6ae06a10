#include "envs/tasks/popgym/repeat_previous.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

namespace engram {

void RepeatPrevious::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, cards::kMaxDecks);
  list.add("k", k, {1, cards::kMaxDecks * cards::kDeckCards - 1},
           "the answer is the card k - 1 cards before the one just dealt; less than the number of cards");
  list_full_state(list, full_state);
}

void RepeatPrevious::Options::check() const {
  const int most = num_decks * cards::kDeckCards - 1;
  if (k > most)
    throw UserError("task.k = '" + std::to_string(k) + "' is not allowed with task.num_decks = " +
                    std::to_string(num_decks) + "; it takes integer 1.." + std::to_string(most));
}

RepeatPrevious::Params RepeatPrevious::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {{cards, cards::answer_reward(cards - options.k), options.full_state}, options.k};
}

void RepeatPrevious::draw(const Params& params, const State& state, Canvas& canvas) {
  cards::draw_suits({state.suits[state.score.t], right(params, state)}, canvas);
}

std::string RepeatPrevious::phase(const Params& params, const State& state) {
  return right(params, state) == cards::kNoAnswer ? "watch" : "repeat";
}

std::vector<VectorPart> RepeatPrevious::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {cards::suit_part("card")}, {cards::suit_part("right answer")});
}

std::vector<TaskPreset> RepeatPrevious::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}, {"k", "4"}}, {{"num_decks", "2"}, {"k", "32"}},
                            {{"num_decks", "3"}, {"k", "64"}});
}

template TaskEntry task_entry<RepeatPrevious>();

}  // namespace engram
