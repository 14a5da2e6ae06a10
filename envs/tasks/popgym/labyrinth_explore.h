// Labyrinth explore: walk over all of a maze of which only the next cells are seen. Source, maze and observation:
// labyrinth.h; what full_state adds of a cell is whether it was walked on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/labyrinth.h"

namespace engram {

struct LabyrinthExplore : cards::Game {
  static constexpr const char* kName = "labyrinth_explore";
  static constexpr const char* kDescription = "walk over all of a maze, seeing the next cells alone";
  static constexpr const char* kMemoryDemand = "where one has been";
  static constexpr int kNumActions = labyrinth::kNumActions;
  static constexpr auto& kActionNames = labyrinth::kActionNames;
  static constexpr const char* kChanceSource = "nothing is guessed: all cells have to be walked on";

  struct Options : TaskOptions<LabyrinthExplore> {
    int size = 10;
    int episode_length = 1024;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params {
    std::int32_t side;
    std::int32_t max_steps;
    float step_reward;  // of a step to where the agent has been
    bool full_state;
  };

  struct State {
    labyrinth::Maze maze;
    labyrinth::Cells visited;
    labyrinth::Place agent;
    std::int8_t last_action;
    std::int32_t t;     // steps so far
    std::int32_t left;  // open cells that were not visited
    float new_reward;   // of a step to one of them: 1 / their number at first
  };

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    return {labyrinth::observation_size(params.side, params.full_state)};
  }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    return start(labyrinth::draw_maze(params.side - 1, rng));
  }
  // The state in which an episode in this maze begins.
  HOST_DEVICE static constexpr State start(const labyrinth::Maze& maze) {
    State state{};
    state.maze = maze;
    state.agent = maze.start;
    state.last_action = labyrinth::kNone;
    state.visited.add(maze.start);
    state.left = -1;  // all but the start
    for (const std::uint32_t row : maze.open.row)
      for (std::uint32_t rest = row; rest != 0; rest &= rest - 1) ++state.left;
    state.new_reward = static_cast<float>(1.0 / state.left);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    state.agent = labyrinth::step_from(state.maze.open, params.side, state.agent, action);
    state.last_action = static_cast<std::int8_t>(action);
    const bool is_new = !state.visited.has(state.agent);
    state.visited.add(state.agent);
    state.left -= is_new;
    const float reward = is_new ? state.new_reward : params.step_reward;
    if (success(params, state)) return {reward, End::kTerminated};
    return {reward, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.left == 0; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    const auto kind_of = [&state](labyrinth::Place place) {
      if (place == state.maze.start) return labyrinth::kStart;
      return state.maze.open.has(place) ? labyrinth::kFree : labyrinth::kWall;
    };
    out = labyrinth::show_view(params.side, state.agent, state.last_action, kind_of, out);
    if (params.full_state)
      labyrinth::show_all(
          state.maze.open, params.side, state.agent,
          [&state](labyrinth::Place place) { return state.visited.has(place); }, out);
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<LabyrinthExplore>);

}  // namespace engram
