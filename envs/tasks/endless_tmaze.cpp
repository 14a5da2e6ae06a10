#include "envs/tasks/endless_tmaze.h"

#include <cstdint>
#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {
namespace {

struct EndlessTMazeColours {
  static constexpr Rgb kWall{25, 25, 25}, kFloor{204, 204, 204}, kSign{134, 206, 235}, kAgent{228, 148, 109};
  static constexpr Rgb kRight{0, 160, 0}, kWrong{200, 0, 0};
};

const EnumNames<CorridorLengths> kLengths{{CorridorLengths::kFixed, "fixed"}, {CorridorLengths::kUniform, "uniform"}};

}  // namespace

void EndlessTMaze::Options::list_options(OptionList& list) {
  list.add("corridors", corridors, {1, kMostCorridors}, "corridors, one after the other");
  list.add("corridor_length", corridor_length, {1, kMostSteps}, "steps from a sign to its junction, at most");
  list.add("lengths", lengths, kLengths, "of the corridors: all corridor_length, or each 1 .. corridor_length, drawn");
  list.add("turn_reward", turn_reward, {-1e6, 1e6}, "reward of a turn as the sign pointed");
  list.add("wrong_turn_reward", wrong_turn_reward, {-1e6, 1e6},
           "reward of any other action at a junction, which ends the episode");
  list.add("delay_reward", delay_reward, {-1e6, 0}, "reward of a turn inside of a corridor, which does nothing");
  list_full_state(list, full_state);
}

EndlessTMaze::Params EndlessTMaze::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.corridors,
          options.corridor_length,
          6 * (options.corridor_length + 1) * options.corridors,
          static_cast<float>(options.turn_reward),
          static_cast<float>(options.wrong_turn_reward),
          static_cast<float>(options.delay_reward),
          options.lengths,
          options.full_state};
}

void EndlessTMaze::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = EndlessTMazeColours;
  canvas.resize(3, params.corridor_length + 1, Colours::kWall);
  const int end = state.corridor.length;
  for (int x = 0; x <= end; ++x) canvas.set(1, x, Colours::kFloor);
  canvas.set(1, 0, Colours::kSign);
  canvas.set(state.corridor.right ? 2 : 0, end, Colours::kRight);
  canvas.set(state.corridor.right ? 0 : 2, end, Colours::kWrong);
  canvas.set(1, state.x, Colours::kAgent);
}

std::vector<ColourMeaning> EndlessTMaze::colours(const Params&) {
  using Colours = EndlessTMazeColours;
  return {{'#', Colours::kWall, "wall"},   {'.', Colours::kFloor, "corridor"},   {'?', Colours::kSign, "the sign"},
          {'@', Colours::kAgent, "agent"}, {'+', Colours::kRight, "right turn"}, {'x', Colours::kWrong, "wrong turn"}};
}

std::optional<Cue> EndlessTMaze::cue(const Params& params, const State& state) {
  if (params.full_state || state.x == 0) return {};
  return Cue{state.corridor.right ? "turn right" : "turn left", {}};
}

std::string EndlessTMaze::phase(const Params&, const State& state) {
  if (at_junction(state)) return "junction";
  return state.x == 0 ? "sign" : "corridor";
}

std::vector<VectorPart> EndlessTMaze::vector_parts(const Params& params) {
  return with_full_state(params.full_state,
                         {{"x / the longest corridor"}, {"the sign points left"}, {"the sign points right"}},
                         {{"the turn (-1 left, 1 right)"}, {"at the junction (1) or not (0)"}});
}

std::vector<TaskPreset> EndlessTMaze::presets() {
  constexpr const char* kSizes = "the sizes of the authors' public code";
  return {{"endless_tmaze_fixed", kName, {{"corridors", "5"}, {"corridor_length", "10"}, {"lengths", "fixed"}}, kSizes},
          {"endless_tmaze_uniform",
           kName,
           {{"corridors", "5"}, {"corridor_length", "10"}, {"lengths", "uniform"}},
           kSizes}};
}

template TaskEntry task_entry<EndlessTMaze>();

}  // namespace engram
