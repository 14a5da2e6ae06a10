#include "envs/tasks/popgym/labyrinth_escape.h"

#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

void LabyrinthEscape::Options::list_options(OptionList& list) {
  labyrinth::list_options(list, size, episode_length, full_state);
}

void LabyrinthEscape::Options::check() const { labyrinth::check_size(size); }

LabyrinthEscape::Params LabyrinthEscape::make_params(const Options& options, std::uint64_t, Purpose) {
  const double step_reward = -1.0 / options.episode_length;
  return {labyrinth::side_of(options.size), options.episode_length - 1, static_cast<float>(step_reward),
          static_cast<float>(step_reward + 1), options.full_state};
}

void LabyrinthEscape::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = labyrinth::Colours;
  canvas.resize(params.side, params.side, Colours::kWall);
  for (int y = 0; y < params.side; ++y)
    for (int x = 0; x < params.side; ++x)
      if (state.maze.open.has({static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)}))
        canvas.set(y, x, Colours::kFree);
  canvas.set(state.maze.start.y, state.maze.start.x, Colours::kStart);
  canvas.set(state.maze.end.y, state.maze.end.x, Colours::kGoal);
  canvas.set(state.agent.y, state.agent.x, Colours::kAgent);
}

std::vector<ColourMeaning> LabyrinthEscape::colours(const Params&) {
  using Colours = labyrinth::Colours;
  return {{'#', Colours::kWall, "wall"},
          {'.', Colours::kFree, "free"},
          {'S', Colours::kStart, "start"},
          {'G', Colours::kGoal, "goal"},
          {'@', Colours::kAgent, "agent"}};
}

std::string LabyrinthEscape::phase(const Params& params, const State& state) {
  return success(params, state) ? "out" : "search";
}

std::vector<VectorPart> LabyrinthEscape::vector_parts(const Params& params) {
  return labyrinth::vector_parts(params.side, params.full_state, "the goal");
}

std::vector<TaskPreset> LabyrinthEscape::presets() {
  return cards::three_sizes(kName, {{"size", "10"}}, {{"size", "14"}}, {{"size", "18"}});
}

template TaskEntry task_entry<LabyrinthEscape>();

}  // namespace engram
