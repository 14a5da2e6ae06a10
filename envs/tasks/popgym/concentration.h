// Concentration: cards lie face down, the agent turns over two at a time, and a pair of one kind stays face up. Of a
// pair that does not match, both are hidden again with the next action. Source: cards.h.
// Observation: [n (K + 1)] float, for each of n cards a one-hot code: its kind, of K kinds (2 colours or 13 ranks), or
// the last element while it lies face down. With full_state [n (K + 1) + n K + n + 1]: a one-hot code of every card's
// kind, a bit for each card that was found, and whether the next card is the second of two.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct Concentration : cards::Game {
  static constexpr const char* kName = "concentration";
  static constexpr const char* kDescription = "cards lie face down; turn over two of a kind at a time until all are up";
  static constexpr const char* kMemoryDemand = "which card lies where";
  static constexpr int kMaxDecks = 2;
  static constexpr int kMaxCards = kMaxDecks * cards::kDeckCards;
  static constexpr int kNumActions = kMaxCards;
  static constexpr auto kActionNames = cards::kNumberNames<kNumActions>;
  static constexpr const char* kChanceSource =
      "it depends on the size: cards turned over at random are all found in time in about half of the episodes with "
      "colours, and never with ranks";

  struct Options : TaskOptions<Concentration> {
    int num_decks = 1;
    CardKind kind = CardKind::kColours;

    void list_options(OptionList& list);
  };

  struct Params {
    int cards;
    int kinds;
    float reward[4];  // of a first card; of a miss that turned one card over, or two; of a pair
    bool full_state;
  };

  static constexpr int kNone = kMaxCards;  // no card's number, but a place in a pile
  using KindPile = cards::Pile<4, kMaxCards + 1>;

  struct State {
    KindPile kinds;              // of the cards as they lie
    KindPile found;              // the same of those that stay face up, as many as there are kinds for the others
    std::int32_t t;              // steps so far
    std::uint8_t first, second;  // cards turned over last, or kNone
    std::uint8_t pairs;          // found
    bool waiting;                // the next card is the second of two
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {params.cards * (params.kinds + 1) + (params.full_state ? params.cards * (params.kinds + 1) + 1 : 0)};
  }
  static int max_episode_steps(const Params& params) { return num_steps(params.cards); }
  HOST_DEVICE static constexpr int num_actions(const Params& params) { return params.cards; }
  // The reference's ceil(2 n - n / (2 n - 1)), in which the fraction is more than 0 and less than 1.
  HOST_DEVICE static constexpr int num_steps(int cards) { return 2 * cards; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    return start(params, KindPile::shuffled(params.cards, params.kinds, rng));
  }
  // The state in which an episode with these cards begins.
  HOST_DEVICE static constexpr State start(const Params& params, const KindPile& kinds) {
    State state{};
    state.kinds = kinds;
    for (int card = 0; card < params.cards; ++card) state.found.set(card, params.kinds);
    state.first = state.second = kNone;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    const bool second = state.waiting, up = state.found[action] != params.kinds;
    const int other = second ? state.first : action;
    // The same card twice is no pair. A card that was found ends the turn at once, be it the first or the second.
    const bool pair = second & !up & (other != action) & (state.kinds[other] == state.kinds[action]);
    state.first = static_cast<std::uint8_t>(other);
    state.second = static_cast<std::uint8_t>(second ? action : kNone);
    state.waiting = !second & !up;
    state.found.set(action, pair ? state.kinds[action] : state.found[action]);
    state.found.set(other, pair ? state.kinds[other] : state.found[other]);
    state.pairs = static_cast<std::uint8_t>(state.pairs + pair);
    ++state.t;
    const End end = 2 * state.pairs == params.cards      ? End::kTerminated
                    : state.t == num_steps(params.cards) ? End::kTruncated
                                                         : End::kNone;
    // Without a branch: what lies face down is unpredictable.
    return {params.reward[pair ? 3 : second ? 2 : up], end};
  }

  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return 2 * state.pairs == params.cards;
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    KindPile seen = state.found;
    seen.set(state.first, state.kinds[state.first]);
    seen.set(state.second, state.kinds[state.second]);
    const int width = params.kinds + 1;
    for (int i = 0; i < params.cards * width; ++i) out[i] = 0;
    for (int card = 0; card < params.cards; ++card, out += width) out[seen[card]] = 1;
    if (!params.full_state) return;
    for (int card = 0; card < params.cards; ++card) out = cards::one_hot(state.kinds[card], params.kinds, out);
    for (int card = 0; card < params.cards; ++card) *out++ = state.found[card] != params.kinds ? 1.0f : 0.0f;
    *out = state.waiting ? 1.0f : 0.0f;
  }

  // The cards in rows of 13: grey face down, in a colour for each kind face up.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static ShownObservation shown(const Params& params, const Element* observation);
  static std::vector<TaskPreset> presets();

 private:
  template <class KindOf>
  static void draw_cards(const Params& params, Canvas& canvas, KindOf kind_of);
};

static_assert(GridTask<Concentration>);

}  // namespace engram
