// Labyrinth escape: find the way out of a maze of which only the next cells are seen. Source, maze and observation:
// labyrinth.h; what full_state adds of a cell is whether it is the goal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "envs/tasks/popgym/labyrinth.h"

namespace engram {

struct LabyrinthEscape : cards::Game {
  static constexpr const char* kName = "labyrinth_escape";
  static constexpr const char* kDescription = "find the way out of a maze, seeing the next cells alone";
  static constexpr const char* kMemoryDemand = "the ways tried";
  static constexpr int kNumActions = labyrinth::kNumActions;
  static constexpr auto& kActionNames = labyrinth::kActionNames;
  static constexpr const char* kChanceSource = "nothing is guessed: the way out has to be walked";

  struct Options : TaskOptions<LabyrinthEscape> {
    int size = 10;
    int episode_length = 1024;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params {
    std::int32_t side;
    std::int32_t max_steps;
    float step_reward;  // of all steps
    float goal_reward;  // of the step to the goal, that included
    bool full_state;
  };

  struct State {
    labyrinth::Maze maze;
    labyrinth::Place agent;
    std::int8_t last_action;
    std::int32_t t;  // steps so far
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
    State state{maze, maze.start, labyrinth::kNone, 0};
    state.maze.open.add(maze.end);
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    state.agent = labyrinth::step_from(state.maze.open, params.side, state.agent, action);
    state.last_action = static_cast<std::int8_t>(action);
    if (success(params, state)) return {params.goal_reward, End::kTerminated};
    return {params.step_reward, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.agent == state.maze.end; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    const auto kind_of = [&state](labyrinth::Place place) {
      if (place == state.maze.start) return labyrinth::kStart;
      if (place == state.maze.end) return labyrinth::kGoal;
      return state.maze.open.has(place) ? labyrinth::kFree : labyrinth::kWall;
    };
    out = labyrinth::show_view(params.side, state.agent, state.last_action, kind_of, out);
    if (params.full_state)
      labyrinth::show_all(
          state.maze.open, params.side, state.agent,
          [&state](labyrinth::Place place) { return place == state.maze.end; }, out);
  }

  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();
};

static_assert(GridTask<LabyrinthEscape>);

}  // namespace engram
