#include "envs/tasks/popgym/labyrinth_explore.h"

#include <string>
#include <vector>

#include "envs/task_entry.h"

namespace engram {

void LabyrinthExplore::Options::list_options(OptionList& list) {
  labyrinth::list_options(list, size, episode_length, full_state);
}

void LabyrinthExplore::Options::check() const { labyrinth::check_size(size); }

LabyrinthExplore::Params LabyrinthExplore::make_params(const Options& options, std::uint64_t, Purpose) {
  return {labyrinth::side_of(options.size), options.episode_length - 1,
          static_cast<float>(-1.0 / options.episode_length), options.full_state};
}

void LabyrinthExplore::draw(const Params& params, const State& state, Canvas& canvas) {
  using Colours = labyrinth::Colours;
  canvas.resize(params.side, params.side, Colours::kWall);
  for (int y = 0; y < params.side; ++y)
    for (int x = 0; x < params.side; ++x)
      if (const labyrinth::Place place{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)};
          state.maze.open.has(place))
        canvas.set(y, x, state.visited.has(place) ? Colours::kVisited : Colours::kFree);
  canvas.set(state.maze.start.y, state.maze.start.x, Colours::kStart);
  canvas.set(state.agent.y, state.agent.x, Colours::kAgent);
}

std::vector<ColourMeaning> LabyrinthExplore::colours(const Params&) {
  using Colours = labyrinth::Colours;
  return {{'#', Colours::kWall, "wall"},
          {'.', Colours::kFree, "free, not visited"},
          {':', Colours::kVisited, "visited"},
          {'S', Colours::kStart, "start"},
          {'@', Colours::kAgent, "agent"}};
}

std::string LabyrinthExplore::phase(const Params& params, const State& state) {
  return success(params, state) ? "all seen" : "explore";
}

std::vector<VectorPart> LabyrinthExplore::vector_parts(const Params& params) {
  return labyrinth::vector_parts(params.side, params.full_state, "walked on");
}

std::vector<TaskPreset> LabyrinthExplore::presets() {
  return cards::three_sizes(kName, {{"size", "10"}}, {{"size", "14"}}, {{"size", "18"}});
}

template TaskEntry task_entry<LabyrinthExplore>();

}  // namespace engram
