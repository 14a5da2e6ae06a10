// Multi-armed bandit: every arm pays with a probability of its own, drawn anew for every episode; find an arm that
// pays often, and pull it. Source: cards.h. Observation: [2] float, a one-hot code: whether the last pull did not pay,
// or paid. With full_state [2 + arms]: the probabilities follow.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct MultiarmedBandit : cards::Game {
  static constexpr const char* kName = "multiarmed_bandit";
  static constexpr const char* kDescription = "find an arm that pays often, and pull it";
  static constexpr const char* kMemoryDemand = "how often each arm paid";
  static constexpr int kMaxArms = 30;
  static constexpr int kMaxSteps = 1'000'000;
  static constexpr int kNumActions = kMaxArms;
  static constexpr auto kActionNames = cards::kNumberNames<kNumActions>;
  static constexpr const char* kChanceSource =
      "it depends on the number of arms, A: one arm pulled throughout is good enough in 1/A + 0.1 of the episodes";
  // An episode is solved if the arms pulled in its second half were on average worse by no more than this, in
  // probability of paying, than the best one. Not of the reference, which has no success.
  static constexpr float kTolerance = 0.1f;

  struct Options : TaskOptions<MultiarmedBandit> {
    int arms = 10;
    int pulls = 200;

    void list_options(OptionList& list);
  };

  struct Params {
    int arms;
    int steps;
    float payout;
    float most_regret;  // of a solved episode, in the sum
    bool full_state;
  };

  struct State {
    float probability[kMaxArms];
    float best;       // the largest
    float regret;     // sum over the second half's pulls of what the best arm's probability is higher
    std::int32_t t;   // steps so far
    std::int8_t arm;  // pulled last; -1: none
    bool paid;        // by it
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {2 + (params.full_state ? params.arms : 0)};
  }
  static int max_episode_steps(const Params& params) { return params.steps; }
  HOST_DEVICE static constexpr int num_actions(const Params& params) { return params.arms; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    float probability[kMaxArms] = {};
    for (int arm = 0; arm < params.arms; ++arm) probability[arm] = rng.uniform();
    return start(params, probability);
  }
  // The state in which an episode with these probabilities, one for each arm, begins.
  HOST_DEVICE static constexpr State start(const Params& params, const float* probability) {
    State state{};
    for (int arm = 0; arm < params.arms; ++arm) {
      state.probability[arm] = probability[arm];
      if (probability[arm] > state.best) state.best = probability[arm];
    }
    state.arm = -1;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng& rng) {
    return step_with(params, state, action, rng.uniform() < state.probability[action]);
  }
  // The step in which the arm pays or does not.
  HOST_DEVICE static constexpr Outcome step_with(const Params& params, State& state, int action, bool paid) {
    state.regret += state.t < params.steps / 2 ? 0.0f : state.best - state.probability[action];
    ++state.t;
    state.arm = static_cast<std::int8_t>(action);
    state.paid = paid;
    // Without a branch: payouts are unpredictable.
    return {static_cast<float>(2 * paid - 1) * params.payout, state.t < params.steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return state.t == params.steps && state.regret <= params.most_regret;
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out[0] = static_cast<float>(!state.paid);
    out[1] = static_cast<float>(state.paid);
    if (params.full_state)
      for (int arm = 0; arm < params.arms; ++arm) out[2 + arm] = state.probability[arm];
  }

  // Two rows of all arms: the brighter in the upper, the more often it pays; lit in the lower one is the arm pulled
  // last, green where it paid and red where not.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<MultiarmedBandit>);

}  // namespace engram
