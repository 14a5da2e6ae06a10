// Repeat previous: cards are dealt one by one; the answer of every step is the suit of the card k - 1 cards before the
// one just dealt (k = 1: that one itself), once k cards were dealt. An episode lasts one step less than there are
// cards. Source: cards.h. Observation: [4] float, the suit of the card just dealt as a one-hot code; with full_state
// [8]: the suit to be answered follows, all 0 while nothing is asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct RepeatPrevious : cards::SuitGame<RepeatPrevious> {
  static constexpr const char* kName = "repeat_previous";
  static constexpr const char* kDescription = "cards are dealt one by one; answer each with the suit of an earlier one";
  static constexpr const char* kMemoryDemand = "the last k cards in order";
  static constexpr const char* kChanceSource =
      "every answer has to be right: a guess is one time in four, all of an episode's practically never";

  struct Options : cards::DeckOptions<RepeatPrevious> {
    int k = 4;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params : SuitGame::Params {
    int k;
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {(params.full_state ? 2 : 1) * cards::kSuits};
  }

  HOST_DEVICE static constexpr int num_steps(const Params& params) { return params.cards - 1; }
  HOST_DEVICE static constexpr int right(const Params& params, const State& state) {
    const int card = state.score.t - (params.k - 1);
    return card < 0 ? cards::kNoAnswer : state.suits[card];
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(state.suits[state.score.t], cards::kSuits, out);
    if (params.full_state) cards::one_hot(right(params, state), cards::kSuits, out);
  }

  // Two rows of the four suits: that of the card just dealt is lit in the upper, the right answer in the lower one.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<RepeatPrevious>);

}  // namespace engram
