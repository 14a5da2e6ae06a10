// Mystery path: walk over a path that is not seen from its origin to its goal; whoever steps off it falls, and starts
// again from the origin. Source and agent: memory_gym.h; the path: hidden_path.h; the rules are those of
// mystery_path_grid.py and, in the endless form, of endless_mystery_path.py.
//
// The board has 7 rows and as many columns; in the endless form 8 for each segment of the path, whose last cell leads
// to the next one. There the goal is the last cell of all, and an episode also ends by falling short of the column
// reached before, by falling twice in one place, and for want of progress.
//
// Observation, of float: one-hot codes of the agent's x, y and direction, and 1 where it has just fallen. With
// shows_ends one-hot codes follow of the origin's x and y and of the goal's. With full_state then a one-hot code of the
// direction in which the path goes on, all 0 off the path and at the goal.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"
#include "envs/tasks/memory_gym/hidden_path.h"
#include "envs/tasks/memory_gym/memory_gym.h"
#include "envs/tasks/popgym/cards.h"

namespace engram {

struct MysteryPath {
  static constexpr const char* kName = "mystery_path";
  static constexpr const char* kDescription =
      "cross a board on a path that is not seen, from its start after each fall";
  static constexpr const char* kMemoryDemand = "where one has fallen";
  static constexpr const char* kSource = memory_gym::kSource;
  static constexpr int kNumActions = memory_gym::kNumActions;
  static constexpr auto& kActionNames = memory_gym::kActionNames;
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = "nothing is guessed: the path has to be found by falling off it";
  static constexpr int kSide = memory_gym::kPathSide, kSegmentColumns = kSide + 1, kMostSegments = 8;

  struct Options : TaskOptions<MysteryPath> {
    bool endless = false;
    int segments = 4;
    int stamina = 20;
    int max_steps = 128;
    bool shows_ends = false;
    double goal_reward = 1;
    double progress_reward = 0;
    double fall_reward = 0;
    double step_reward = 0;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params {
    std::int32_t segments, columns;  // of the path, of the board
    std::int32_t stamina;            // steps without a new cell after which an endless episode ends
    std::int32_t max_steps;
    float goal_reward, progress_reward, fall_reward;  // each with that of the step
    float step_reward;
    bool endless;
    bool shows_ends;
    bool full_state;
  };

  using Cell = memory_gym::Cell;

  // A part of the path, and which of its cells were walked on in the episode, and since the last fall.
  struct Segment {
    memory_gym::Path path;
    std::uint64_t walked, walked_lately;
  };

  struct State {
    Segment segment[kMostSegments];  // cell (x, y) is bit 7 (x % 8) + y of segment x / 8
    std::int32_t t;                  // steps so far
    std::int32_t stamina;            // steps left
    memory_gym::Agent agent;
    Cell origin, goal;
    std::uint8_t farthest;  // the column reached
    std::uint8_t falls[2];  // bit y: fallen in this row of the column reached; of the next one
    bool fallen;            // off the path
    bool solved;
  };

  using Element = float;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    const int place = params.columns + kSide;
    return {place * (params.shows_ends ? 3 : 1) + memory_gym::kDirections * (params.full_state ? 2 : 1) + 1};
  }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static constexpr State reset(const Params& params, Rng& rng) {
    const auto row = [&rng] { return static_cast<std::uint8_t>(rng.below(kSide)); };
    State state{};
    if (params.endless) {
      std::uint8_t from = row();
      const Cell origin{0, from};
      for (int i = 0; i < params.segments; ++i) {
        const std::uint8_t to = row();
        const int last = cell_of(kSide - 1, to), transition = cell_of(kSide, to);
        memory_gym::Path& path = state.segment[i].path;
        path = memory_gym::draw_path(cell_of(0, from), last, rng);
        path.add(last, memory_gym::kRight);
        path.add(transition, memory_gym::kRight);
        from = to;
      }
      place(state, origin, {static_cast<std::uint8_t>(params.columns - 1), from});
    } else {
      constexpr std::uint8_t kLast = kSide - 1;
      const int side = static_cast<int>(rng.below(4));  // of the origin: left, right, upper, lower
      const std::uint8_t a = row(), b = row();
      const Cell first[4] = {{0, a}, {kLast, a}, {a, 0}, {a, kLast}};
      const Cell last[4] = {{kLast, b}, {0, b}, {b, kLast}, {b, 0}};
      state.segment[0].path =
          memory_gym::draw_path(cell_of(first[side].x, first[side].y), cell_of(last[side].x, last[side].y), rng);
      place(state, first[side], last[side]);
    }
    state.stamina = params.stamina;
    return state;
  }

  // The state in which an episode on a path of these segments begins; of the others, the path has no cell.
  HOST_DEVICE static constexpr State start(const Params& params, const memory_gym::Path (&paths)[kMostSegments],
                                           Cell origin, Cell goal) {
    State state{};
    for (int i = 0; i < kMostSegments; ++i) state.segment[i].path = paths[i];
    place(state, origin, goal);
    state.stamina = params.stamina;
    return state;
  }

  HOST_DEVICE static constexpr Outcome step(const Params& params, State& state, int action, Rng&) {
    ++state.t;
    if (state.fallen)  // back to the origin, whatever the action
      state.agent.at = state.origin;
    else
      memory_gym::act(state.agent, action, params.columns, kSide);
    state.fallen = false;

    const Cell at = state.agent.at;
    Segment& here = state.segment[at.x / kSegmentColumns];
    const std::uint64_t bit = memory_gym::bit_of(cell_of(at.x % kSegmentColumns, at.y));
    state.solved = at == state.goal;
    bool over = state.solved && !params.endless;
    float reward = params.step_reward;
    if ((here.path.cells & bit) == 0) {
      state.fallen = true;
      reward = params.fall_reward;
      over = params.endless && fails(params, state);
    } else if (!(at == state.origin)) {
      if ((here.walked & bit) == 0) reward = params.progress_reward;
      if ((here.walked_lately & bit) == 0) state.stamina = params.stamina;
      here.walked |= bit;
      here.walked_lately |= bit;
      if (state.solved) reward = params.goal_reward;
    }
    if (params.endless) {
      over |= --state.stamina == 0;
      if (!state.fallen && at.x > state.farthest) {
        state.farthest = at.x;
        state.falls[0] = state.falls[1];
        state.falls[1] = 0;
      }
    }
    if (over) return {reward, End::kTerminated};
    return {reward, state.t == params.max_steps || state.solved ? End::kTruncated : End::kNone};
  }

  HOST_DEVICE static constexpr bool success(const Params&, const State& state) { return state.solved; }

  HOST_DEVICE static constexpr void observe(const Params& params, const State& state, Element* out) {
    const auto show = [&](Cell cell) {
      out = cards::one_hot(cell.x, params.columns, out);
      out = cards::one_hot(cell.y, kSide, out);
    };
    show(state.agent.at);
    out = cards::one_hot(state.agent.facing, memory_gym::kDirections, out);
    *out++ = state.fallen ? 1.0f : 0.0f;
    if (params.shows_ends) {
      show(state.origin);
      show(state.goal);
    }
    if (params.full_state) cards::one_hot(direction(state), memory_gym::kDirections, out);
  }

  // The board from above, the path in it, an arrow on the agent.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  // "origin", "path", "fallen" or "goal".
  static std::string phase(const Params& params, const State& state);
  static std::vector<VectorPart> vector_parts(const Params& params);
  static std::vector<TaskPreset> presets();

  // Cell (x, y) in its segment.
  HOST_DEVICE static constexpr int cell_of(int x, int y) { return x * kSide + y; }

 private:
  HOST_DEVICE static constexpr void place(State& state, Cell origin, Cell goal) {
    state.agent = {origin, memory_gym::kUp};
    state.origin = origin;
    state.goal = goal;
  }

  // Where the path goes on from the agent, cards::kNoAnswer where it does not.
  HOST_DEVICE static constexpr int direction(const State& state) {
    if (state.fallen || state.solved) return cards::kNoAnswer;
    const Cell at = state.agent.at;
    return state.segment[at.x / kSegmentColumns].path.next_of(cell_of(at.x % kSegmentColumns, at.y));
  }

  // Whether the fall to where the agent is ends an endless episode. It cannot have fallen beyond the next column.
  HOST_DEVICE static constexpr bool fails(const Params& params, State& state) {
    for (int i = 0; i < params.segments; ++i) state.segment[i].walked_lately = 0;
    state.stamina = params.stamina;
    const Cell at = state.agent.at;
    if (at.x < state.farthest) return true;
    std::uint8_t& rows = state.falls[at.x - state.farthest];
    const bool again = (rows >> at.y & 1) != 0;
    rows = static_cast<std::uint8_t>(rows | 1 << at.y);
    return again;
  }
};

static_assert(GridTask<MysteryPath>);

}  // namespace engram
