#include "envs/tasks/popgym/concentration.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kFaceDown{150, 160, 175};

Rgb rank_colour(int rank) { return cards::hue(rank, cards::kRanks); }

}  // namespace

void Concentration::Options::list_options(OptionList& list) {
  cards::list_num_decks(list, num_decks, kMaxDecks);
  list.add("kind", kind, {{CardKind::kColours, "colours"}, {CardKind::kRanks, "ranks"}},
           "what two cards have to share to be a pair");
  list_full_state(list, full_state);
}

Concentration::Params Concentration::make_params(const Options& options, std::uint64_t, Purpose) {
  const int cards = options.num_decks * cards::kDeckCards;
  const float miss = -cards::answer_reward(num_steps(cards));
  return {
      cards, cards::kinds_of(options.kind), {0, miss, 2 * miss, cards::answer_reward(cards / 2)}, options.full_state};
}

// kind_of(card): params.kinds where it lies face down.
template <class KindOf>
void Concentration::draw_cards(const Params& params, Canvas& canvas, KindOf kind_of) {
  constexpr int kColumns = 13;
  canvas.resize(params.cards / kColumns, kColumns, kFaceDown);
  for (int card = 0; card < params.cards; ++card) {
    const int kind = kind_of(card);
    if (kind == params.kinds) continue;
    canvas.set(card / kColumns, card % kColumns,
               params.kinds == cards::kColours ? cards::black_or_red(kind) : rank_colour(kind));
  }
}

void Concentration::draw(const Params& params, const State& state, Canvas& canvas) {
  draw_cards(params, canvas, [&](int card) {
    return card == state.first || card == state.second ? state.kinds[card] : state.found[card];
  });
}

std::vector<ColourMeaning> Concentration::colours(const Params& params) {
  std::vector<ColourMeaning> colours =
      cards::colours(params.kinds, params.kinds == cards::kColours ? cards::black_or_red : rank_colour);
  colours.front() = {'.', kFaceDown, "face down"};
  return colours;
}

std::string Concentration::phase(const Params&, const State& state) {
  return state.waiting ? "second card" : "first card";
}

ShownObservation Concentration::shown(const Params& params, const Element* observation) {
  const int width = params.kinds + 1;
  ShownObservation shown;
  draw_cards(params, shown.picture.emplace(), [&](int card) {
    const Element* const code = observation + card * width;
    return static_cast<int>(std::find(code, code + params.kinds, 1.0f) - code);
  });
  return shown;
}

std::vector<TaskPreset> Concentration::presets() {
  return cards::three_sizes(kName, {{"num_decks", "1"}, {"kind", "colours"}}, {{"num_decks", "2"}, {"kind", "colours"}},
                            {{"num_decks", "1"}, {"kind", "ranks"}});
}

template TaskEntry task_entry<Concentration>();

}  // namespace engram
