#include "envs/tasks/umbrella_chain.h"

#include <algorithm>

#include "envs/task_entry.h"

namespace engram {

void UmbrellaChain::Options::list_options(OptionList& list) {
  list.add("chain_length", chain_length, {1, 1'000'000}, "steps of an episode");
  list.add("distractors", distractors, {0, kMaxDistractors}, "random bits in every observation");
  list_full_state(list, full_state);
}

void UmbrellaChain::Options::check() const { check_bounds(*this, kTaskSection); }

UmbrellaChain::Params UmbrellaChain::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.chain_length, options.distractors};
}

void UmbrellaChain::draw(const Params& params, const State& state, Canvas& canvas) {
  constexpr Rgb kNothing{204, 204, 204}, kUmbrella{0, 90, 220}, kBit{25, 25, 25};
  constexpr int kColumns = 16;
  canvas.resize(1 + (params.distractors + kColumns - 1) / kColumns, params.distractors == 0 ? 3 : kColumns, kNothing);
  if (state.needed) canvas.set(0, 0, kUmbrella);
  if (state.taken) canvas.set(0, 1, kUmbrella);
  const auto left = static_cast<std::uint8_t>(255 * (params.chain_length - state.t) / params.chain_length);
  canvas.set(0, 2, {left, left, 0});
  for (int i = 0; i < params.distractors; ++i)
    if (state.noise.bit(i)) canvas.set(1 + i / kColumns, i % kColumns, kBit);
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
