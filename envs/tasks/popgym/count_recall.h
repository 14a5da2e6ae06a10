// Count recall: every step deals a card and names a kind of card; the answer is how many of that kind were dealt so
// far, the card just dealt included. The cards dealt and the kinds named are two piles of as many decks each. An
// episode lasts one step less than there are cards in one. Source: cards.h. Observation: [2 K] float, two one-hot
// codes: the kind of the card just dealt, and the kind named, of K kinds (2 colours, 4 suits or 13 ranks). With
// full_state the right answer follows as a one-hot code over all answers.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct CountRecall : cards::Game {
  static constexpr const char* kName = "count_recall";
  static constexpr const char* kDescription =
      "cards are dealt one by one; answer how many there were of the kind named";
  static constexpr const char* kMemoryDemand = "a count of each kind";
  static constexpr int kMaxDecks = 4;
  static constexpr int kNumActions = kMaxDecks * cards::kDeckCards / cards::kColours + 1;
  static constexpr auto kActionNames = cards::kNumberNames<kNumActions>;
  static constexpr const char* kChanceSource =
      "every answer has to be right, and guesses practically never are in a whole episode";

  struct Options : TaskOptions<CountRecall> {
    int num_decks = 1;
    CardKind kind = CardKind::kColours;

    void list_options(OptionList& list);
  };

  struct Params {
    int cards;
    int kinds;
    float answer_reward;
    bool full_state;
  };

  using KindPile = cards::Pile<4, kMaxDecks * cards::kDeckCards>;

  struct State {
    cards::Score score;
    KindPile dealt, named;
    std::uint8_t count[cards::kRanks];  // of each kind among the cards dealt so far
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {2 * params.kinds + (params.full_state ? num_actions(params) : 0)};
  }
  static int max_episode_steps(const Params& params) { return num_steps(params); }
  // None, one, ... all of a kind.
  HOST_DEVICE static constexpr int num_actions(const Params& params) { return params.cards / params.kinds + 1; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    const KindPile dealt = KindPile::shuffled(params.cards, params.kinds, rng);
    return start(dealt, KindPile::shuffled(params.cards, params.kinds, rng));
  }
  // The state in which an episode with these cards and kinds named begins.
  HOST_DEVICE static constexpr State start(const KindPile& dealt, const KindPile& named) {
    State state{{}, dealt, named, {}};
    state.count[dealt[0]] = 1;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    const Outcome outcome = cards::answer(state.score, action, right(state), params.answer_reward, num_steps(params));
    ++state.count[state.dealt[state.score.t]];
    return outcome;
  }

  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return cards::all_right(state.score, num_steps(params));
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(state.dealt[state.score.t], params.kinds, out);
    out = cards::one_hot(state.named[state.score.t], params.kinds, out);
    if (params.full_state) cards::one_hot(right(state), num_actions(params), out);
  }

  // Two rows of all kinds: that of the card just dealt is lit in the upper, the kind named in the lower one.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params&, const State&) { return "count"; }
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  HOST_DEVICE static constexpr int num_steps(const Params& params) { return params.cards - 1; }
  HOST_DEVICE static constexpr int right(const State& state) { return state.count[state.named[state.score.t]]; }
};

static_assert(GridTask<CountRecall>);

}  // namespace engram
