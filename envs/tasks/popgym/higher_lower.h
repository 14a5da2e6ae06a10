// Higher or lower: cards are dealt one by one; say before each whether its rank is higher or lower than that of the one
// in sight. Who counts the cards knows what is more likely. An episode lasts one step less than there are cards.
// Source: cards.h. Observation: [13] float, the rank of the card in sight as a one-hot code, ace lowest, king highest;
// with full_state [26]: the share of each rank's cards that were dealt follows, the one in sight included.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct HigherLower : cards::Game {
  static constexpr const char* kName = "higher_lower";
  static constexpr const char* kDescription = "cards are dealt one by one; guess whether the next is higher or lower";
  static constexpr const char* kMemoryDemand = "a count of each rank";
  static constexpr int kMaxDecks = 3;
  static constexpr int kNumActions = 2;
  static constexpr const char* kActionNames[] = {"higher", "lower"};
  static constexpr const char* kChanceSource =
      "it depends on the number of decks: who goes by the card in sight alone decides as one who counts would in 9.2%, "
      "3.6% or 2.1% of the episodes with 1, 2 or 3 decks";

  using Options = cards::DeckOptions<HigherLower, kMaxDecks>;

  struct Params {
    int cards;
    int of_rank;  // cards of each rank
    float guess_reward;
    bool full_state;
  };

  // How many cards there are of each rank, four bits for each.
  using Counts = std::uint64_t;
  static_assert(4 * kMaxDecks < 16);

  // Cards are drawn as they are dealt, with the odds of what is left: all orders of the deck are equally likely.
  struct State {
    Counts left;        // in the deck
    std::int32_t t;     // steps so far
    std::uint8_t rank;  // of the card in sight
    bool misjudged;     // whether a guess was the less likely one, given all the cards dealt before it
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {(params.full_state ? 2 : 1) * cards::kRanks};
  }
  static int max_episode_steps(const Params& params) { return num_steps(params); }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    return start(params, static_cast<int>(rng.below(cards::kRanks)));
  }
  // The state in which an episode begins whose first card has this rank.
  HOST_DEVICE static constexpr State start(const Params& params, int rank) {
    State state{};
    for (int each = 0; each < cards::kRanks; ++each) state.left |= static_cast<Counts>(params.of_rank) << 4 * each;
    deal(state, rank);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    const int place = static_cast<int>(rng.below(static_cast<std::uint32_t>(params.cards - 1 - state.t)));
    // The rank of the card at this place of what is left, sorted. Without a branch: it is unpredictable.
    int rank = 0;
    for (int each = 0, before = 0; each < cards::kRanks - 1; ++each) {
      before += static_cast<int>(state.left >> 4 * each & 15);
      rank += before <= place;
    }
    return step_with(params, state, action, rank);
  }
  // The step that deals a card of rank `next`.
  HOST_DEVICE static constexpr Outcome step_with(const Params& params, State& state, int action, int next) {
    const int more = higher_left(state) - lower_left(state), sign = 1 - 2 * action;
    state.misjudged |= more * sign < 0;
    const int right = ((next > state.rank) - (next < state.rank)) * sign;  // 1, or -1 for wrong, or 0 for a push
    deal(state, next);
    ++state.t;
    return {static_cast<float>(right) * params.guess_reward,
            state.t < num_steps(params) ? End::kNone : End::kTerminated};
  }

  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return state.t == num_steps(params) && !state.misjudged;
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(state.rank, cards::kRanks, out);
    if (!params.full_state) return;
    for (int rank = 0; rank < cards::kRanks; ++rank)
      out[rank] = static_cast<float>(params.of_rank - count(state, rank)) / static_cast<float>(params.of_rank);
  }

  // Two rows of all ranks: that of the card in sight is lit in the upper; the more cards of a rank are left, the
  // brighter it is in the lower one.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params&, const State&) { return "guess"; }
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  HOST_DEVICE static constexpr int num_steps(const Params& params) { return params.cards - 1; }
  HOST_DEVICE static constexpr void deal(State& state, int rank) {
    state.left -= Counts{1} << 4 * rank;
    state.rank = static_cast<std::uint8_t>(rank);
  }
  HOST_DEVICE static constexpr int count(const State& state, int rank) {
    return static_cast<int>(state.left >> 4 * rank & 15);
  }
  // Of all ranks: pairs of counts as bytes, which a multiplication adds up. At most 156.
  HOST_DEVICE static constexpr int sum(Counts counts) {
    constexpr Counts kBytes = 0x0F0F0F0F0F0F0F0F;
    return static_cast<int>(((counts & kBytes) + (counts >> 4 & kBytes)) * 0x0101010101010101 >> 56);
  }
  HOST_DEVICE static constexpr int higher_left(const State& state) { return sum(state.left >> 4 * (state.rank + 1)); }
  HOST_DEVICE static constexpr int lower_left(const State& state) {
    return sum(state.left & ((Counts{1} << 4 * state.rank) - 1));
  }
};

static_assert(GridTask<HigherLower>);

}  // namespace engram
