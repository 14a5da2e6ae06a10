// POPGym's labyrinths: drawing of mazes, what is seen at the walls, rewards and ends.
#include "envs/tasks/popgym/labyrinth.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "envs/task_entry.h"
#include "envs/tasks/popgym/labyrinth_escape.h"
#include "envs/tasks/popgym/labyrinth_explore.h"
#include "tests/envs/tasks/task_settings.h"

using namespace engram;
using namespace engram::testing;
using labyrinth::Maze;
using labyrinth::Place;

namespace {

Place at(int x, int y) { return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y)}; }

// Steps from `from` to every cell of the maze, -1 where none lead.
std::vector<std::vector<int>> distances(const labyrinth::Cells& open, int side, Place from) {
  std::vector<std::vector<int>> steps(static_cast<std::size_t>(side),
                                      std::vector<int>(static_cast<std::size_t>(side), -1));
  std::vector<Place> front{from};
  steps[from.y][from.x] = 0;
  for (std::size_t i = 0; i < front.size(); ++i)
    for (int action = 0; action < labyrinth::kNumActions; ++action) {
      const Place next = labyrinth::step_from(open, side, front[i], action);
      if (steps[next.y][next.x] >= 0) continue;
      steps[next.y][next.x] = steps[front[i].y][front[i].x] + 1;
      front.push_back(next);
    }
  return steps;
}

// A maze of rows as the original's numbers.
Maze maze_of(const std::vector<std::string>& rows) {
  Maze maze{};
  for (std::size_t y = 0; y < rows.size(); ++y)
    for (std::size_t x = 0; x < rows.size(); ++x) {
      const Place place = at(static_cast<int>(x), static_cast<int>(y));
      if (rows[y][x] == '0' || rows[y][x] == '2') maze.open.add(place);
      if (rows[y][x] == '2') maze.start = place;
      if (rows[y][x] == '3') maze.end = place;
    }
  return maze;
}

// The kinds seen, as digits, and the last action.
template <class Task>
std::string seen(const typename Task::Params& params, const typename Task::State& state) {
  std::vector<float> numbers(static_cast<std::size_t>(Task::observation_shape(params)[0]));
  Task::observe(params, state, numbers.data());
  std::string digits;
  for (std::size_t part = 0; part < 10; ++part) {
    const auto first = numbers.begin() + static_cast<std::ptrdiff_t>(part * labyrinth::kKinds);
    CHECK(std::count(first, first + labyrinth::kKinds, 1.0f) == 1);
    digits += static_cast<char>('0' + (std::find(first, first + labyrinth::kKinds, 1.0f) - first));
  }
  return digits;
}

template <class Task>
Outcome step(const typename Task::Params& params, typename Task::State& state, int action) {
  Rng unused;
  return Task::step(params, state, action, unused);
}

template <class Task>
typename Task::Params make_params(int size, int episode_length, bool full_state = false) {
  typename Task::Options options;
  options.size = size;
  options.episode_length = episode_length;
  options.full_state = full_state;
  return Task::make_params(options, 1, Purpose::kTest);
}

const std::vector<std::string> kSmall = {"11111", "20001", "11101", "10003", "11111"};

}  // namespace

TEST_CASE("a drawn labyrinth is a tree over all of its cells, between openings in opposite walls") {
  int walls[4] = {};
  for (const int size : {4, 10, 18}) {
    const int side = size + 1, cells = size / 2;
    int same = 0;
    Maze before{};
    for (std::uint32_t episode = 0; episode < 200; ++episode) {
      Rng rng(2, Purpose::kTraining, 0, episode);
      const Maze maze = labyrinth::draw_maze(size, rng);
      int open = 0, corners = 0;
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) {
          open += maze.open.has(at(x, y));
          corners += maze.open.has(at(x, y)) && x % 2 == 1 && y % 2 == 1;
          if (x % 2 == 0 && y % 2 == 0) REQUIRE(!maze.open.has(at(x, y)));
        }
      // cells, the walls between them that are gone, and the start.
      REQUIRE(corners == cells * cells);
      REQUIRE(open == 2 * cells * cells);
      const auto steps = distances(maze.open, side, maze.start);
      for (int y = 0; y < side; ++y)
        for (int x = 0; x < side; ++x) REQUIRE((steps[y][x] >= 0) == maze.open.has(at(x, y)));
      const bool across = maze.start.x % (side - 1) == 0;
      REQUIRE((across ? maze.end.x : maze.end.y) == side - 1 - (across ? maze.start.x : maze.start.y));
      REQUIRE((across ? maze.start.y : maze.start.x) % 2 == 1);
      REQUIRE((across ? maze.end.y : maze.end.x) % 2 == 1);
      ++walls[2 * across + (maze.start.x + maze.start.y >= side - 1 && (across ? maze.start.x : maze.start.y) != 0)];
      same += std::equal(maze.open.row, maze.open.row + labyrinth::kMaxSide, before.open.row);
      before = maze;
    }
    CHECK(same < 20);
  }
  for (const int count : walls) CHECK(count > 100);
}

TEST_CASE("at the upper and the left wall the view begins with the agent's own row or column") {
  const auto params = make_params<LabyrinthEscape>(4, 20);
  auto state = LabyrinthEscape::start(maze_of(kSmall));
  CHECK(seen<LabyrinthEscape>(params, state) == "1112011114");  // columns 0 and 1, then walls: rows 0 to 2
  step<LabyrinthEscape>(params, state, 0);                      // off the board
  CHECK(state.agent == at(0, 1));
  CHECK(seen<LabyrinthEscape>(params, state) == "1112011110");
  for (int x = 1; x <= 3; ++x) step<LabyrinthEscape>(params, state, 1);
  CHECK(seen<LabyrinthEscape>(params, state) == "1110011011");
  step<LabyrinthEscape>(params, state, 3);
  step<LabyrinthEscape>(params, state, 3);
  CHECK(seen<LabyrinthEscape>(params, state) == "1010031113");
  // In the right wall, where the view ends with it.
  CHECK(step<LabyrinthEscape>(params, state, 1).end == End::kTerminated);
  CHECK(seen<LabyrinthEscape>(params, state) == "0110311111");
}

TEST_CASE("labyrinth escape: every step costs, the goal pays 1 and ends the episode, which is cut one step early") {
  const auto params = make_params<LabyrinthEscape>(4, 8);
  CHECK(LabyrinthEscape::max_episode_steps(params) == 7);
  auto state = LabyrinthEscape::start(maze_of(kSmall));
  for (const int action : {1, 1, 1, 3, 3}) {
    const Outcome outcome = step<LabyrinthEscape>(params, state, action);
    CHECK(outcome.reward == -0.125f);
    CHECK(outcome.end == End::kNone);
    CHECK(LabyrinthEscape::phase(params, state) == "search");
  }
  const Outcome last = step<LabyrinthEscape>(params, state, 1);
  CHECK(last.reward == 0.875f);
  CHECK(last.end == End::kTerminated);
  CHECK(LabyrinthEscape::success(params, state));
  state = LabyrinthEscape::start(maze_of(kSmall));
  for (int t = 1; t < 7; ++t) CHECK(step<LabyrinthEscape>(params, state, 2).end == End::kNone);
  CHECK(step<LabyrinthEscape>(params, state, 2).end == End::kTruncated);
  CHECK(!LabyrinthEscape::success(params, state));
}

TEST_CASE("labyrinth explore: new cells pay their share, others cost, the last new one ends the episode") {
  std::vector<std::string> rows = kSmall;
  rows[3][4] = '1';
  const auto params = make_params<LabyrinthExplore>(4, 100);
  auto state = LabyrinthExplore::start(maze_of(rows));
  CHECK(state.left == 7);
  const float share = static_cast<float>(1.0 / 7), cost = -0.01f;
  for (const auto& [action, reward] : std::vector<std::pair<int, float>>{
           {2, cost}, {1, share}, {0, cost}, {1, cost}, {1, share}, {1, share}, {3, share}, {3, share}, {0, share}}) {
    const Outcome outcome = step<LabyrinthExplore>(params, state, action);
    CHECK(outcome.reward == reward);
    CHECK(outcome.end == End::kNone);
  }
  const Outcome last = step<LabyrinthExplore>(params, state, 0);
  CHECK(last.reward == share);
  CHECK(last.end == End::kTerminated);
  CHECK(LabyrinthExplore::success(params, state));
  CHECK(LabyrinthExplore::phase(params, state) == "all seen");
}

TEST_CASE("full_state shows the maze, the agent, and the goal or where it has been") {
  const auto check = [](const auto& params, const auto& state, auto show, auto third) {
    std::vector<float> numbers(static_cast<std::size_t>(labyrinth::observation_size(params.side, true)));
    show(params, state, numbers.data());
    std::size_t next = labyrinth::kSeen;
    for (int y = 0; y < params.side; ++y)
      for (int x = 0; x < params.side; ++x) {
        CHECK(numbers[next++] == (state.maze.open.has(at(x, y)) ? 1 : 0));
        CHECK(numbers[next++] == (state.agent == at(x, y) ? 1 : 0));
        CHECK(numbers[next++] == (third(at(x, y)) ? 1 : 0));
      }
    CHECK(next == numbers.size());
  };
  const auto escape = make_params<LabyrinthEscape>(4, 50, true);
  auto escaping = LabyrinthEscape::start(maze_of(kSmall));
  step<LabyrinthEscape>(escape, escaping, 1);
  check(escape, escaping, LabyrinthEscape::observe, [](Place place) { return place == at(4, 3); });
  const auto explore = make_params<LabyrinthExplore>(4, 50, true);
  std::vector<std::string> rows = kSmall;
  rows[3][4] = '1';
  auto exploring = LabyrinthExplore::start(maze_of(rows));
  step<LabyrinthExplore>(explore, exploring, 1);
  check(explore, exploring, LabyrinthExplore::observe,
        [](Place place) { return place == at(0, 1) || place == at(1, 1); });
}

TEST_CASE("a labyrinth of an odd size is refused") {
  for (const char* const name : {"labyrinth_escape", "labyrinth_explore"}) {
    CHECK(settings_error(name, {{"size", "11"}}) == "task.size = '11' is not allowed; it takes an even number");
    CHECK(settings_error(name, {{"size", "2"}}) != "");
    CHECK(settings_error(name, {{"size", "20"}}) != "");
    CHECK(settings_error(name, {{"episode_length", "1"}}) != "");
    CHECK(settings_error(name, {{"size", "4"}}) == "");
  }
}
