// Minesweeper without a board: every action opens a field, and all that is seen of it is how many mines lie around it.
// An episode ends with a mine, with the last field that has none, or after as many steps as there are such fields.
// Source: cards.h. Observation: [min(mines + 1, 10)] float, a one-hot code of the number of mines on the field just
// opened and on those around it, 0 before the first action. With full_state two bits for each field follow: first all
// that say whether it has a mine, then all that say whether it was opened.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/cards.h"

namespace engram {

struct Minesweeper : cards::Game {
  static constexpr const char* kName = "minesweeper";
  static constexpr const char* kDescription = "open all fields without a mine; the board is not shown";
  static constexpr const char* kMemoryDemand = "fields and their numbers";
  static constexpr int kMaxSize = 8;
  static constexpr int kMaxFields = kMaxSize * kMaxSize;
  static constexpr int kNumActions = kMaxFields;
  static constexpr auto kActionNames = cards::kNumberNames<kNumActions>;
  static constexpr const char* kChanceSource =
      "every field without a mine has to be opened, each once, and guesses practically never do";
  static constexpr int kSafeAtLeast = 3;  // fields without a mine: the reference divides by 2 less

  struct Options : TaskOptions<Minesweeper> {
    int size = 4;
    int mines = 2;

    void list_options(OptionList& list);
    void check() const;
  };

  // Bit i of each word of fields is that of field i, row by row.
  struct Params {
    std::uint64_t around[kMaxFields];  // each field, itself included
    std::uint64_t fields;              // all
    int num_fields;
    int mines;
    int counts;       // of mines that can be seen, 0 included
    float reward[3];  // of a field that is opened, of one opened before, of a mine
    bool full_state;
  };

  struct State {
    std::uint64_t mines, opened;  // a mine that was hit is opened, too
    std::uint8_t t;               // steps so far
    std::uint8_t count;           // the observation
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {params.counts + (params.full_state ? 2 * params.num_fields : 0)};
  }
  static int max_episode_steps(const Params& params) { return num_steps(params); }
  HOST_DEVICE static constexpr int num_actions(const Params& params) { return params.num_fields; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    // As many fields, all sets of them with the same odds (Floyd's sampling).
    std::uint64_t mines = 0;
    for (int last = params.num_fields - params.mines; last < params.num_fields; ++last) {
      const int field = static_cast<int>(rng.below(static_cast<std::uint32_t>(last) + 1));
      mines |= bit((mines >> field & 1) != 0 ? last : field);
    }
    return start(mines);
  }
  // The state in which an episode with these mines begins.
  HOST_DEVICE static constexpr State start(std::uint64_t mines) { return {mines, 0, 0, 0}; }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    const bool mine = (state.mines >> action & 1) != 0, again = (state.opened >> action & 1) != 0;
    state.opened |= bit(action);
    state.count = static_cast<std::uint8_t>(bits_in(state.mines & params.around[action]));
    ++state.t;
    const End end = (mine | all_open(params, state)) ? End::kTerminated
                    : state.t == num_steps(params)   ? End::kTruncated
                                                     : End::kNone;
    // Without a branch: what lies under a field is unpredictable.
    return {params.reward[again + 2 * mine], end};
  }

  HOST_DEVICE static constexpr bool success(const Params& params, const State& state) {
    return all_open(params, state);
  }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    out = cards::one_hot(state.count, params.counts, out);
    if (!params.full_state) return;
    out = cards::show_bits(Bits{state.mines}, params.num_fields, out);
    cards::show_bits(Bits{state.opened & ~state.mines}, params.num_fields, out);
  }

  // The board: grey while closed, with a mine under it dark, red once it was hit; opened fields by their number.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params&, const State&) { return "open"; }
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

 private:
  struct Bits {
    std::uint64_t word;
    HOST_DEVICE constexpr int operator[](int i) const { return static_cast<int>(word >> i & 1); }
  };

  HOST_DEVICE static constexpr std::uint64_t bit(int field) { return std::uint64_t{1} << field; }
  HOST_DEVICE static constexpr int num_steps(const Params& params) { return params.num_fields - params.mines; }
  HOST_DEVICE static constexpr bool all_open(const Params& params, const State& state) {
    return (state.mines | state.opened) == params.fields;
  }
  // How many bits of the word are set: counted in pairs, in fours, in bytes, which a multiplication adds up.
  HOST_DEVICE static constexpr int bits_in(std::uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    return static_cast<int>(((word + (word >> 4)) & 0x0F0F0F0F0F0F0F0F) * 0x0101010101010101 >> 56);
  }
};

static_assert(GridTask<Minesweeper>);

}  // namespace engram
