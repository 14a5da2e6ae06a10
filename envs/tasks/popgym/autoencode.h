// Autoencode: watch a deck being dealt card by card, then play it back, the last card first. With n cards an episode
// has n - 1 steps of watching and n answers. Source: cards.h. Observation: [6] float, two one-hot codes: play or watch,
// and the suit of the card just dealt; once the first answer is given, spades in its place. With full_state [10]: the
// suit to be answered follows, all 0 while watching.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct Autoencode : cards::SuitGame<Autoencode> {
  static constexpr const char* kName = "autoencode";
  static constexpr const char* kDescription = "watch a deck being dealt, then play it back, the last card first";
  static constexpr const char* kMemoryDemand = "all cards in their order";
  static constexpr const char* kChanceSource =
      "every answer has to be right: a guess is one time in four, all of an episode's practically never";

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {kModes + (params.full_state ? 2 : 1) * cards::kSuits};
  }

  HOST_DEVICE static constexpr int num_steps(const Params& params) { return 2 * params.cards - 1; }
  HOST_DEVICE static constexpr int right(const Params& params, const State& state) {
    const int card = 2 * (params.cards - 1) - state.score.t;
    return plays(params, state) && card >= 0 ? state.suits[card] : cards::kNoAnswer;
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(plays(params, state) ? kPlay : kWatch, kModes, out);
    out = cards::one_hot(shown(params, state), cards::kSuits, out);
    if (params.full_state) cards::one_hot(right(params, state), cards::kSuits, out);
  }

  // Two rows of the four suits: that of the card in sight is lit in the upper, the right answer in the lower one.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

  enum Mode { kPlay = 0, kWatch = 1 };
  static constexpr int kModes = 2;

 private:
  // From the moment on in which the last card is dealt.
  HOST_DEVICE static constexpr bool plays(const Params& params, const State& state) {
    return state.score.t >= params.cards - 1;
  }
  HOST_DEVICE static constexpr int shown(const Params& params, const State& state) {
    return state.score.t < params.cards ? state.suits[state.score.t] : 0;
  }
};

static_assert(GridTask<Autoencode>);

}  // namespace engram
