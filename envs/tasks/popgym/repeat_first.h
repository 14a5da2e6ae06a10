// Repeat first: cards are dealt one by one; the answer of every step is the suit of the first. An episode lasts one
// step less than there are cards. Source: cards.h. Observation: [4] float, the suit of the card just dealt as a one-hot
// code; with full_state [8]: the first card's suit follows, at every step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct RepeatFirst : cards::SuitGame<RepeatFirst> {
  static constexpr const char* kName = "repeat_first";
  static constexpr const char* kDescription = "cards are dealt one by one; answer each with the suit of the first";
  static constexpr const char* kMemoryDemand = "the first of many cards";
  static constexpr std::optional<double> kChanceSuccess = 0.25;
  static constexpr const char* kChanceSource =
      "the same suit answered throughout, the most that is possible without memory; one of four is the first";

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {(params.full_state ? 2 : 1) * cards::kSuits};
  }

  HOST_DEVICE static constexpr int num_steps(const Params& params) { return params.cards - 1; }
  HOST_DEVICE static constexpr int right(const Params&, const State& state) { return state.suits[0]; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(state.suits[state.score.t], cards::kSuits, out);
    if (params.full_state) cards::one_hot(right(params, state), cards::kSuits, out);
  }

  // Two rows of the four suits: that of the card just dealt is lit in the upper, that of the first in the lower one.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
  // The first card, once others have followed.
  static std::optional<Cue> cue(const Params& params, const State& state);
};

static_assert(GridTask<RepeatFirst>);

}  // namespace engram
