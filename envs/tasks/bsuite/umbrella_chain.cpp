#include "envs/tasks/bsuite/umbrella_chain.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kUnset{204, 204, 204}, kUmbrella{0, 90, 220}, kNoise{25, 25, 25};

Rgb left_colour(float share) {
  const auto bright = static_cast<std::uint8_t>(255 * share);
  return {bright, bright, 0};
}

}  // namespace

void UmbrellaChain::Options::list_options(OptionList& list) {
  list.add("chain_length", chain_length, {1, 1'000'000}, "steps of an episode");
  list.add("distractors", distractors, {0, kMaxDistractors}, "random bits in every observation");
  list_full_state(list, full_state);
}

UmbrellaChain::Params UmbrellaChain::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.chain_length, options.distractors};
}

void UmbrellaChain::draw(const Params& params, const State& state, Canvas& canvas) {
  constexpr int kColumns = 16;
  canvas.resize(1 + (params.distractors + kColumns - 1) / kColumns, params.distractors == 0 ? 3 : kColumns, kUnset);
  if (state.needed) canvas.set(0, 0, kUmbrella);
  if (state.taken) canvas.set(0, 1, kUmbrella);
  canvas.set(0, 2, left_colour(static_cast<float>(params.chain_length - state.t) / params.chain_length));
  for (int i = 0; i < params.distractors; ++i)
    if (state.noise.bit(i)) canvas.set(1 + i / kColumns, i % kColumns, kNoise);
}

std::vector<ColourMeaning> UmbrellaChain::colours(const Params&) {
  return {{'.', kUnset, "not so"},
          {'u', kUmbrella, "umbrella: needed, taken"},
          {'0', left_colour(0), "share of time left", left_colour(1)},
          {'x', kNoise, "random bit"}};
}

std::string UmbrellaChain::phase(const Params&, const State& state) { return state.t == 0 ? "choice" : "chain"; }

std::vector<VectorPart> UmbrellaChain::vector_parts(const Params& params) {
  return {{"umbrella needed (1) or not (0)"},
          {"umbrella at hand (1) or not (0)"},
          {"share of time left"},
          {"random bits", params.distractors}};
}

std::vector<TaskPreset> UmbrellaChain::presets() {
  std::vector<TaskPreset> presets;
  for (const int length : kBsuiteSweep)
    presets.push_back({"umbrella_length_" + std::to_string(length),
                       kName,
                       {{"chain_length", std::to_string(length)}, {"distractors", "20"}},
                       kBsuiteSource});
  return presets;
}

template TaskEntry task_entry<UmbrellaChain>();

}  // namespace engram
