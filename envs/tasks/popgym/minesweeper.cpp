#include "envs/tasks/popgym/minesweeper.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

namespace engram {
namespace {

constexpr Rgb kClosedField{140, 140, 140}, kMine{90, 60, 60}, kOpenedMine{210, 0, 0};

// Of a field with so many mines around it.
Rgb count_colour(int mines) { return mines == 0 ? Rgb{255, 255, 255} : cards::hue(9 - mines, 10); }

}  // namespace

void Minesweeper::Options::list_options(OptionList& list) {
  list.add("size", size, {2, kMaxSize}, "side of the board in fields");
  list.add("mines", mines, {1, kMaxFields - kSafeAtLeast}, "mines on it; all but 3 fields or fewer");
  list_full_state(list, full_state);
}

void Minesweeper::Options::check() const {
  const int most = size * size - kSafeAtLeast;
  if (mines > most)
    throw UserError("task.mines = '" + std::to_string(mines) + "' is not allowed with task.size = " +
                    std::to_string(size) + "; it takes integer 1.." + std::to_string(most));
}

Minesweeper::Params Minesweeper::make_params(const Options& options, std::uint64_t, Purpose) {
  Params params{};
  params.num_fields = options.size * options.size;
  params.mines = options.mines;
  params.counts = std::min(options.mines + 1, 10);
  params.full_state = options.full_state;
  for (int field = 0; field < params.num_fields; ++field) {
    params.fields |= bit(field);
    const int row = field / options.size, column = field % options.size;
    for (int r = std::max(row - 1, 0); r <= std::min(row + 1, options.size - 1); ++r)
      for (int c = std::max(column - 1, 0); c <= std::min(column + 1, options.size - 1); ++c)
        params.around[field] |= bit(r * options.size + c);
  }
  // Rounded once, from the reference's doubles.
  const int steps = num_steps(params);
  const double open = 1.0 / steps;
  params.reward[0] = static_cast<float>(open);
  params.reward[1] = static_cast<float>(-0.5 / (steps - 2));
  params.reward[2] = static_cast<float>(-0.5 - open);
  return params;
}

void Minesweeper::draw(const Params& params, const State& state, Canvas& canvas) {
  int size = 1;
  while (size * size < params.num_fields) ++size;
  canvas.resize(size, size, kClosedField);
  for (int field = 0; field < params.num_fields; ++field) {
    const bool mine = Bits{state.mines}[field] != 0, opened = Bits{state.opened}[field] != 0;
    const int count = bits_in(state.mines & params.around[field]);
    if (mine)
      canvas.set(field / size, field % size, opened ? kOpenedMine : kMine);
    else if (opened)
      canvas.set(field / size, field % size, count_colour(count));
  }
}

std::vector<ColourMeaning> Minesweeper::colours(const Params&) {
  std::vector<ColourMeaning> colours = {
      {'.', kClosedField, "closed"}, {'*', kMine, "mine"}, {'X', kOpenedMine, "opened mine"}};
  for (int count = 0; count <= 8; ++count)
    colours.push_back({static_cast<char>('0' + count), count_colour(count), std::to_string(count) + " around"});
  return colours;
}

std::vector<VectorPart> Minesweeper::vector_parts(const Params& params) {
  const auto names = cards::kNumberNames<kMaxFields>;
  return with_full_state(
      params.full_state,
      {one_hot_part("mines at and around the field", {names.begin(), names.begin() + params.counts})},
      {{"mines", params.num_fields}, {"opened", params.num_fields}});
}

std::vector<TaskPreset> Minesweeper::presets() {
  return cards::three_sizes(kName, {{"size", "4"}, {"mines", "2"}}, {{"size", "6"}, {"mines", "6"}},
                            {{"size", "8"}, {"mines", "10"}});
}

template TaskEntry task_entry<Minesweeper>();

}  // namespace engram
