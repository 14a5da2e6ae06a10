#include "envs/tasks/popgym/higher_lower.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

Rgb share_colour(float share) {
  const auto bright = static_cast<std::uint8_t>(255 * share);
  return {0, bright, bright};
}

}  // namespace

HigherLower::Params HigherLower::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, cards / cards::kRanks, cards::answer_reward(cards), options.full_state};
}

void HigherLower::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, cards::kRanks, cards::kTable);
  canvas.set(0, state.rank, cards::kCard);
  for (int rank = 0; rank < cards::kRanks; ++rank)
    canvas.set(1, rank, share_colour(static_cast<float>(count(state, rank)) / static_cast<float>(params.of_rank)));
}

std::vector<ColourMeaning> HigherLower::colours(const Params&) {
  return {{'.', cards::kTable, "table"},
          {'X', cards::kCard, "the card"},
          {'0', share_colour(0), "share dealt of a rank", share_colour(1)}};
}

std::vector<VectorPart> HigherLower::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {one_hot_part("card", cards::kind_names(cards::kRanks))},
                         {{"share dealt of each rank", cards::kRanks}});
}

std::vector<TaskPreset> HigherLower::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}}, {{"num_decks", "2"}}, {{"num_decks", "3"}});
}

template TaskEntry task_entry<HigherLower>();

}  // namespace engram
