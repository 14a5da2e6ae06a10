#include "envs/tasks/memory_gym/mystery_path.h"

#include <cstdint>
#include <string>
#include <vector>

#include "base/error.h"
#include "envs/task_entry.h"

namespace engram {
namespace {

struct PathColours {
  static constexpr Rgb kOff{25, 25, 25}, kPath{204, 204, 204}, kWalked{160, 190, 220}, kOrigin{134, 206, 235};
  static constexpr Rgb kGoal{0, 160, 0}, kAgent{228, 148, 109}, kFallen{200, 0, 0};
};

}  // namespace

void MysteryPath::Options::list_options(OptionList& list) {
  list.add("endless", endless, "segment after segment, for as long as the agent makes progress");
  list.add("segments", segments, {1, kMostSegments}, "of the path in the endless form, 8 columns each");
  list.add("stamina", stamina, {1, 1'000'000},
           "steps without a new cell of the path after which an endless episode ends");
  list.add("max_steps", max_steps, {1, 1'000'000}, "steps after which an episode is cut");
  list.add("shows_ends", shows_ends, "the origin and the goal are seen; not in the endless form");
  list.add("goal_reward", goal_reward, {-1e6, 1e6}, "reward of the goal");
  list.add("progress_reward", progress_reward, {-1e6, 1e6}, "reward of each other cell of the path, the first time");
  list.add("fall_reward", fall_reward, {-1e6, 1e6}, "reward of falling off the path");
  list.add("step_reward", step_reward, {-1e6, 1e6}, "reward of every step, beside the others");
  list_full_state(list, full_state);
}

void MysteryPath::Options::check() const {
  if (endless && shows_ends)
    throw UserError(
        "task.shows_ends = 'true' is not allowed with task.endless = 'true', whose path has no goal to see");
}

MysteryPath::Params MysteryPath::make_params(const Options& options, std::uint64_t, Purpose) {
  const auto with_step = [&](double reward) { return static_cast<float>(reward + options.step_reward); };
  const int segments = options.endless ? options.segments : 1;
  return {segments,
          options.endless ? segments * kSegmentColumns : kSide,
          options.stamina,
          options.max_steps,
          with_step(options.goal_reward),
          with_step(options.progress_reward),
          with_step(options.fall_reward),
          with_step(0),
          options.endless,
          options.shows_ends,
          options.full_state};
}

void MysteryPath::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = PathColours;
  canvas.resize(kSide, params.columns, Colours::kOff);
  for (int x = 0; x < params.columns; ++x)
    for (int y = 0; y < kSide; ++y) {
      const Segment& segment = state.segment[x / kSegmentColumns];
      const int cell = cell_of(x % kSegmentColumns, y);
      if (segment.path.has(cell))
        canvas.set(y, x, (segment.walked >> cell & 1) != 0 ? Colours::kWalked : Colours::kPath);
    }
  canvas.set(state.origin.y, state.origin.x, Colours::kOrigin);
  canvas.set(state.goal.y, state.goal.x, Colours::kGoal);
  canvas.set(state.agent.at.y, state.agent.at.x, state.fallen ? Colours::kFallen : Colours::kAgent);
  canvas.set_arrow(memory_gym::arrow_of(state.agent));
}

std::vector<ColourMeaning> MysteryPath::colours(const Params&) {
  using Colours = PathColours;
  return {{'#', Colours::kOff, "off the path"},
          {'.', Colours::kPath, "path, not walked on"},
          {':', Colours::kWalked, "path, walked on"},
          {'O', Colours::kOrigin, "origin"},
          {'G', Colours::kGoal, "goal"},
          {'@', Colours::kAgent, "agent"},
          {'x', Colours::kFallen, "the agent, fallen"}};
}

std::string MysteryPath::phase(const Params&, const State& state) {
  if (state.fallen) return "fallen";
  if (state.solved) return "goal";
  return state.agent.at == state.origin ? "origin" : "path";
}

std::vector<VectorPart> MysteryPath::vector_parts(const Params& params) {
  std::vector<VectorPart> parts = {memory_gym::place_part("x", params.columns),
                                   memory_gym::place_part("y", kSide),
                                   memory_gym::direction_part("direction"),
                                   {"fallen (1) or not (0)"}};
  if (params.shows_ends)
    for (const char* const end : {"the origin's ", "the goal's "}) {
      parts.push_back(memory_gym::place_part(end + std::string("x"), params.columns));
      parts.push_back(memory_gym::place_part(end + std::string("y"), kSide));
    }
  return with_full_state(params.full_state, parts, {memory_gym::direction_part("where the path goes on")});
}

std::vector<TaskPreset> MysteryPath::presets() {
  return {
      {"mystery_path_grid", kName, {{"endless", "false"}, {"max_steps", "128"}, {"shows_ends", "false"}}, kSource},
      {"mystery_path_grid_on", kName, {{"endless", "false"}, {"max_steps", "128"}, {"shows_ends", "true"}}, kSource},
      {"mystery_path_endless",
       kName,
       {{"endless", "true"},
        {"segments", "4"},
        {"stamina", "20"},
        {"max_steps", "2048"},
        {"goal_reward", "0.1"},
        {"progress_reward", "0.1"}},
       "after Pleines et al., Memory Gym: Towards endless tasks, 2024"}};
}

template TaskEntry task_entry<MysteryPath>();

}  // namespace engram
