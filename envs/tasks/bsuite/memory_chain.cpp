#include "envs/tasks/bsuite/memory_chain.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kNoBit{204, 204, 204};
Rgb bit_colour(bool is_set) { return is_set ? Rgb{0, 90, 220} : Rgb{210, 0, 0}; }

}  // namespace

void MemoryChain::Options::list_options(OptionList& list) {
  list.add("memory_length", memory_length, {1, 1'000'000}, "moments from showing the bits to one after the question");
  list.add("bits", bits, {1, kMaxBits}, "how many are shown");
  list.add("shown_twice", shown_twice,
           "the first observation comes twice, as by the original's code; false: once, as by its documentation");
  list_full_state(list, full_state);
}

MemoryChain::Params MemoryChain::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.memory_length, options.bits, options.shown_twice, options.full_state};
}

void MemoryChain::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(2, params.bits, kNoBit);
  for (int i = 0; i < params.bits; ++i)
    if (moment_of(params, state) == 0) canvas.set(0, i, bit_colour((state.context >> i & 1) != 0));
  canvas.set(1, state.query, bit_colour((state.context >> state.query & 1) != 0));
}

std::vector<ColourMeaning> MemoryChain::colours(const Params&) {
  return {{'.', kNoBit, "nothing"},
          {'+', bit_colour(true), std::string("bit, answer ") + kActionNames[1]},
          {'-', bit_colour(false), std::string("bit, answer ") + kActionNames[0]}};
}

std::string MemoryChain::phase(const Params& params, const State& state) {
  const int moment = moment_of(params, state);
  return moment >= params.memory_length - 1 ? "answer" : moment == 0 ? "shown" : "wait";
}

std::optional<Cue> MemoryChain::cue(const Params& params, const State& state) {
  if (params.full_state || params.bits != 1 || moment_of(params, state) == 0) return {};
  const bool is_set = state.context == 1;
  return Cue{kActionNames[is_set ? 1 : 0], bit_colour(is_set)};
}

std::vector<VectorPart> MemoryChain::vector_parts(const Params& params) {
  return {{"share of time left"}, {"bit asked for, from 0"}, {"bits", params.bits}};
}

std::vector<TaskPreset> MemoryChain::presets() {
  std::vector<TaskPreset> presets;
  for (const int length : kBsuiteSweep)
    presets.push_back(
        {"memory_len_" + std::to_string(length), kName, {{"memory_length", std::to_string(length)}}, kBsuiteSource});
  // Its sweep ends earlier.
  for (const int bits : kBsuiteSweep)
    if (bits <= 40)
      presets.push_back({"memory_size_" + std::to_string(bits),
                         kName,
                         {{"memory_length", "2"}, {"bits", std::to_string(bits)}},
                         kBsuiteSource});
  return presets;
}

template TaskEntry task_entry<MemoryChain>();

}  // namespace engram
