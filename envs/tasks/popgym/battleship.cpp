#include "envs/tasks/popgym/battleship.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

// Of water and of ships, before and after a shot.
constexpr Rgb kSquareColour[2][2] = {{{20, 60, 140}, {130, 180, 255}}, {{110, 110, 110}, {210, 0, 0}}};

}  // namespace

void Battleship::Options::list_options(OptionList& list) {
  list.add("size", size, {kMinSize, kMaxSize}, "side of the board in squares");
  list_full_state(list, full_state);
}

Battleship::Params Battleship::make_params(const Options& options, std::uint64_t, Purpose) {
  const int water = options.size * options.size - kShipSquares;
  return {options.size, {-cards::answer_reward(water), cards::answer_reward(kShipSquares)}, options.full_state};
}

void Battleship::draw(const Params& params, const State& state, Canvas& canvas) {
  canvas.resize(params.size, params.size, kSquareColour[0][0]);
  for (int square = 0; square < num_actions(params); ++square)
    canvas.set(square / params.size, square % params.size, kSquareColour[state.ships[square]][state.shots[square]]);
}

std::vector<ColourMeaning> Battleship::colours(const Params&) {
  return {{'.', kSquareColour[0][0], "water"},
          {'o', kSquareColour[0][1], "shot into water"},
          {'#', kSquareColour[1][0], "ship"},
          {'X', kSquareColour[1][1], "hit"}};
}

std::vector<VectorPart> Battleship::vector_parts(const Params& params) {
  return with_full_state(params.full_state, {one_hot_part("the last shot", {"water", "a ship"})},
                         {{"ships", num_actions(params)}, {"shots", num_actions(params)}});
}

std::vector<TaskPreset> Battleship::presets() {
  return cards::three_sizes(kName, {{"size", "8"}}, {{"size", "10"}}, {{"size", "12"}});
}

template TaskEntry task_entry<Battleship>();

}  // namespace engram
