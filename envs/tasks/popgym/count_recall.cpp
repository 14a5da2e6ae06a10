#include "envs/tasks/popgym/count_recall.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

// Ranks are all alike.
Rgb kind_colour(int kinds, int kind) {
  if (kinds == cards::kRanks) return cards::kCard;
  return kinds == cards::kColours ? cards::black_or_red(kind) : cards::suit_colour(kind);
}

}  // namespace

void CountRecall::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, kMaxDecks);
  list.add("kind", kind, {{CardKind::kColours, "colours"}, {CardKind::kSuits, "suits"}, {CardKind::kRanks, "ranks"}},
           "what cards are told apart and counted by");
  list_full_state(list, full_state);
}

CountRecall::Params CountRecall::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, cards::kinds_of(options.kind), cards::answer_reward(cards - 1), options.full_state};
}

void CountRecall::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, params.kinds, cards::kTable);
  for (int row = 0; const int kind : {state.dealt[state.score.t], state.named[state.score.t]})
    canvas.set(row++, kind, kind_colour(params.kinds, kind));
}

std::vector<ColourMeaning> CountRecall::colours(const Params& params) {
  if (params.kinds == cards::kRanks) return {{'.', cards::kTable, "table"}, {'X', cards::kCard, "the rank"}};
  return cards::colours(params.kinds, params.kinds == cards::kColours ? cards::black_or_red : cards::suit_colour);
}

std::vector<VectorPart> CountRecall::vector_parts(const Params& params) {
  const std::vector<std::string> kinds = cards::kind_names(params.kinds);
  return with_full_state(
      params.full_state, {one_hot_part("dealt", kinds), one_hot_part("how many so far of", kinds)},
      {one_hot_part("right answer", {kActionNames.begin(), kActionNames.begin() + num_actions(params)})});
}

std::vector<TaskPreset> CountRecall::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}, {"kind", "colours"}}, {{"num_decks", "2"}, {"kind", "suits"}},
                            {{"num_decks", "4"}, {"kind", "ranks"}});
}

template TaskEntry task_entry<CountRecall>();

}  // namespace engram
