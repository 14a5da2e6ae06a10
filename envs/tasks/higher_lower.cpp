#include "envs/tasks/higher_lower.h"

#include "envs/task_entry.h"

namespace engram {

void HigherLower::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, kMaxDecks);
  list_full_state(list, full_state);
}

void HigherLower::Options::check() const { check_bounds(*this, kTaskSection); }

HigherLower::Params HigherLower::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  return {cards, cards / cards::kRanks, cards::answer_reward(cards), options.full_state};
}

void HigherLower::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, cards::kRanks, cards::kTable);
  canvas.set(0, state.rank, {25, 25, 25});
  for (int rank = 0; rank < cards::kRanks; ++rank) {
    const auto bright = static_cast<std::uint8_t>(255 * count(state, rank) / params.of_rank);
    canvas.set(1, rank, {0, bright, bright});
  }
}

std::string HigherLower::phase(const Params&, const State&) { return "guess"; }

std::vector<VectorPart> HigherLower::vector_parts(const Params& params) {
  std::vector<VectorPart> parts = {one_hot_part("card", cards::kind_names(cards::kRanks))};
  if (params.full_state) parts.push_back({"share dealt of each rank", cards::kRanks});
  return parts;
}

std::vector<TaskPreset> HigherLower::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}}, {{"num_decks", "2"}}, {{"num_decks", "3"}});
}

template TaskEntry task_entry<HigherLower>();

}  // namespace engram
