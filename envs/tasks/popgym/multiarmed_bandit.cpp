#include "envs/tasks/popgym/multiarmed_bandit.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kPaid{0, 160, 0}, kDidNotPay{210, 0, 0};

Rgb odds_colour(float probability) {
  const auto bright = static_cast<std::uint8_t>(255 * probability);
  return {bright, bright, 0};
}

}  // namespace

void MultiarmedBandit::Options::list_options(OptionList& list) {
  list.add("arms", arms, {2, kMaxArms}, "arms to choose from");
  list.add("pulls", pulls, {2, kMaxSteps}, "pulls of an episode");
  list_full_state(list, full_state);
}

MultiarmedBandit::Params MultiarmedBandit::make_params(const Options& options, std::uint64_t, Purpose) {
  const int counted = options.pulls - options.pulls / 2;
  return {options.arms, options.pulls, cards::answer_reward(options.pulls), kTolerance * static_cast<float>(counted),
          options.full_state};
}

void MultiarmedBandit::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, params.arms, cards::kTable);
  for (int arm = 0; arm < params.arms; ++arm) canvas.set(0, arm, odds_colour(state.probability[arm]));
  if (state.arm >= 0) canvas.set(1, state.arm, state.paid ? kPaid : kDidNotPay);
}

std::vector<ColourMeaning> MultiarmedBandit::colours(const Params&) {
  return {{'.', cards::kTable, "table"},
          {'0', odds_colour(0), "odds of an arm", odds_colour(1)},
          {'+', kPaid, "it paid"},
          {'x', kDidNotPay, "it did not pay"}};
}

std::string MultiarmedBandit::phase(const Params& params, const State& state) {
  return state.t < params.steps / 2 ? "first half" : "second half";
}

std::vector<VectorPart> MultiarmedBandit::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {one_hot_part("the last pull", {"did not pay", "paid"})},
                         {{"odds of each arm", params.arms}});
}

std::vector<TaskPreset> MultiarmedBandit::presets() {
  return cards::three_sizes(kName, {{"arms", "10"}, {"pulls", "200"}}, {{"arms", "20"}, {"pulls", "400"}},
                            {{"arms", "30"}, {"pulls", "600"}});
}

template TaskEntry task_entry<MultiarmedBandit>();

}  // namespace engram
