#include "envs/tasks/memory_rl/tmaze.h"

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"
#include "envs/tasks/memory_rl/memory_rl.h"

namespace engram {
namespace {

struct TMazeColours {
  static constexpr Rgb kWall{25, 25, 25}, kFloor{204, 204, 204}, kOracle{134, 206, 235}, kAgent{228, 148, 109};
  static constexpr Rgb kRight{0, 160, 0}, kWrong{200, 0, 0};
};

}  // namespace

void TMaze::Options::list_options(OptionList& list) {
  list.add("active", active, "false: the sign is seen at the start; true: it is one step behind the start");
  list.add("corridor_length", corridor_length, {1, 1'000'000}, "steps from the start to the junction");
  list.add("rewrites", rewrites, {0, 1'000'000},
           "times that the sign is drawn and shown anew on the way; the last one counts");
  list.add("penalty", penalty, {-1e6, 0},
           "reward, divided by corridor_length, of a step that lags behind walking ahead");
  list.add("goal_reward", goal_reward, {-1e6, 1e6}, "reward of ending the episode on the right goal");
  list_full_state(list, full_state);
}

void TMaze::Options::check() const {
  if (rewrites >= corridor_length)
    throw UserError("task.rewrites = '" + std::to_string(rewrites) + "' is not allowed with task.corridor_length = '" +
                    std::to_string(corridor_length) + "'; it takes fewer than that");
}

TMaze::Params TMaze::make_params(const Options& options, std::uint64_t, Purpose) {
  return {options.active ? 1 : 0,
          options.corridor_length,
          static_cast<float>(options.penalty / options.corridor_length),
          static_cast<float>(options.goal_reward),
          options.full_state,
          options.rewrites};
}

void TMaze::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = TMazeColours;
  const int end = junction(params);
  canvas.resize(3, end + 1, Colours::kWall);
  for (int x = 0; x <= end; ++x) canvas.set(1, x, Colours::kFloor);
  for (int x = 0; x < end; ++x)
    if (x == 0 || rewrites_at(params, x)) canvas.set(1, x, Colours::kOracle);
  canvas.set(1 - state.goal_y, end, Colours::kRight);
  canvas.set(1 + state.goal_y, end, Colours::kWrong);
  canvas.set(1 - state.y, state.x, Colours::kAgent);
}

std::vector<ColourMeaning> TMaze::colours(const Params&) {
  using Colours = TMazeColours;
  return {{'#', Colours::kWall, "wall"},   {'.', Colours::kFloor, "corridor"},   {'?', Colours::kOracle, "the sign"},
          {'@', Colours::kAgent, "agent"}, {'+', Colours::kRight, "right goal"}, {'x', Colours::kWrong, "wrong goal"}};
}

std::optional<Cue> TMaze::cue(const Params& params, const State& state) {
  if (params.full_state || state.oracle != kSeen) return {};
  return Cue{state.goal_y > 0 ? "goal at +y" : "goal at -y", {}};
}

std::string TMaze::phase(const Params& params, const State& state) {
  if (state.x < junction(params)) return state.oracle == kShown ? "oracle" : "corridor";
  return state.y == 0 ? "junction" : "goal";
}

std::vector<VectorPart> TMaze::vector_parts(const Params& params) {
  return with_full_state(params.full_state,
                         {{"at the junction (1) or not (0)"}, {"the sign, or the side at the junction (y)"}},
                         {{"the goal (y)"}, {"share of the corridor walked"}, {"late (1) or not (0)"}});
}

std::vector<TaskPreset> TMaze::presets() {
  std::vector<TaskPreset> presets;
  for (const char* length : {"50", "100", "250", "500", "750", "1000", "1250", "1500"})
    presets.push_back({std::string("tmaze_passive_") + length, kName, {{"corridor_length", length}}, kMemoryRlSource});
  for (const char* length : {"20", "50", "100", "250", "500"})
    presets.push_back({std::string("tmaze_active_") + length,
                       kName,
                       {{"active", "true"}, {"corridor_length", length}},
                       kMemoryRlSource});
  for (const auto& [rewrites, length] : {std::pair{"1", "20"}, {"4", "50"}, {"9", "100"}})
    presets.push_back({std::string("tmaze_rewrites_") + rewrites,
                       kName,
                       {{"corridor_length", length}, {"rewrites", rewrites}},
                       "engram's own"});
  return presets;
}

template TaskEntry task_entry<TMaze>();

}  // namespace engram
