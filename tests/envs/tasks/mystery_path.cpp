#include "envs/tasks/memory_gym/mystery_path.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "envs/task_entry.h"
#include "tests/envs/recorded/golden_episodes.h"
#include "tests/envs/tasks/task_settings.h"

using namespace engram;
using namespace engram::testing;

namespace {

constexpr int kStay = 0, kLeft = 1, kRight = 2, kForward = 3;

MysteryPath::Params params_of(const MysteryPath::Options& options) {
  return MysteryPath::make_params(options, 1, Purpose::kTest);
}

// A straight path along the row, from the first column to the last.
MysteryPath::State along_row(const MysteryPath::Params& params, std::uint8_t row) {
  memory_gym::Path paths[MysteryPath::kMostSegments] = {};
  for (int x = 0; x < params.columns; ++x)
    paths[x / MysteryPath::kSegmentColumns].add(MysteryPath::cell_of(x % MysteryPath::kSegmentColumns, row),
                                                memory_gym::kRight);
  return MysteryPath::start(params, paths, {0, row}, {static_cast<std::uint8_t>(params.columns - 1), row});
}

Outcome step(const MysteryPath::Params& params, MysteryPath::State& state, int action) {
  Rng unused;
  return MysteryPath::step(params, state, action, unused);
}

// Turns to the direction, then walks; the last step's outcome. An episode must not end before it.
Outcome go(const MysteryPath::Params& params, MysteryPath::State& state, int direction) {
  while (state.agent.facing != direction) CHECK(step(params, state, kLeft).end == End::kNone);
  return step(params, state, kForward);
}

std::vector<float> observe(const MysteryPath::Params& params, const MysteryPath::State& state) {
  std::vector<float> seen(static_cast<std::size_t>(MysteryPath::observation_shape(params)[0]), -1.0f);
  MysteryPath::observe(params, state, seen.data());
  return seen;
}

std::vector<float> codes(const std::vector<std::pair<int, int>>& places_of_widths) {
  std::vector<float> numbers;
  for (const auto& [place, width] : places_of_widths)
    for (int i = 0; i < width; ++i) numbers.push_back(i == place ? 1.0f : 0.0f);
  return numbers;
}

}  // namespace

TEST_CASE("distances as integers order estimates as the original's doubles do") {
  for (int a = 0; a <= 72; ++a)
    for (int b = 0; b <= 72; ++b)
      for (int more = 0; more <= 9; ++more) {  // no root is larger
        const std::uint32_t left = memory_gym::scaled_root(a),
                            right = (static_cast<std::uint32_t>(more) << 20) + memory_gym::scaled_root(b);
        const double exact_left = std::sqrt(a), exact_right = more + std::sqrt(b);
        REQUIRE((left < right) == (exact_left < exact_right));
        REQUIRE((left > right) == (exact_left > exact_right));
      }
}

TEST_CASE("from the numbers that the original drew the same paths come") {
  // In the order of the original's calls, each of which must ask for as many.
  struct Recorded {
    const std::vector<int> numbers;
    std::size_t next = 0;
    std::uint32_t below(std::uint32_t count) {
      REQUIRE(next < numbers.size());
      const auto number = static_cast<std::uint32_t>(numbers[next++]);
      REQUIRE(number < count);
      return number;
    }
  };
  int paths = 0;
  for (const Json& episode : golden_episodes(golden_file("memory_gym.jsonl"))) {
    if (episode["env"] != "mystery_path") continue;
    const Json& cells = episode["path"];
    std::size_t from = 0;
    for (const Json& draws : episode["draws"]) {
      // In the endless form the segment's last cell is followed by the one that leads to the next.
      std::size_t last = from;
      while (last + 1 < cells.size() && cells[last + 1][0].get<int>() / 8 == cells[from][0].get<int>() / 8) ++last;
      if (episode["endless"] == true) --last;
      const auto cell_of = [](const Json& cell) {
        return MysteryPath::cell_of(cell[0].get<int>() % 8, cell[1].get<int>());
      };
      Recorded recorded{draws.get<std::vector<int>>()};
      const memory_gym::Path path = memory_gym::draw_path(cell_of(cells[from]), cell_of(cells[last]), recorded);
      CHECK(recorded.next == recorded.numbers.size());
      std::uint64_t drawn = 0;
      for (std::size_t i = from; i <= last; ++i) {
        drawn |= memory_gym::bit_of(cell_of(cells[i]));
        if (i == last) break;
        const int direction = path.next_of(cell_of(cells[i]));
        CHECK(cells[i][0].get<int>() + memory_gym::step_x(direction) == cells[i + 1][0]);
        CHECK(cells[i][1].get<int>() + memory_gym::step_y(direction) == cells[i + 1][1]);
      }
      CHECK(path.cells == drawn);
      from = last + 2;
      ++paths;
    }
  }
  CHECK(paths == 16 + 16 * 3);
}

TEST_CASE("a path leads from its origin to its goal, cell by cell, and is drawn as the original draws it") {
  constexpr int kPaths = 20'000;
  std::map<int, int> of_length;
  int rows_in_the_middle[7] = {}, back = 0;
  for (std::uint32_t episode = 0; episode < kPaths; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    const int start = static_cast<int>(rng.below(7)), end = 42 + static_cast<int>(rng.below(7));
    const memory_gym::Path path = memory_gym::draw_path(start, end, rng);
    std::uint64_t walked = 0;
    int length = 0;
    bool goes_back = false;
    for (int cell = start;; ++length) {
      REQUIRE(path.has(cell));
      REQUIRE((walked >> cell & 1) == 0);
      walked |= std::uint64_t{1} << cell;
      if (cell == end) break;
      const int direction = path.next_of(cell);
      const int x = cell / 7 + memory_gym::step_x(direction), y = cell % 7 + memory_gym::step_y(direction);
      REQUIRE((x >= 0 && x < 7 && y >= 0 && y < 7));
      goes_back |= direction == memory_gym::kLeft;
      cell = 7 * x + y;
    }
    REQUIRE(walked == path.cells);
    ++of_length[length + 1];
    back += goes_back;
    for (int y = 0; y < 7; ++y) rows_in_the_middle[y] += path.has(21 + y);
  }
  // Shares among 40,000 paths of the original (commit a94f2b6 of its repository, MysteryPath of pygame_assets.py, with
  // NumPy's default_rng(1)): lengths; cells of the fourth column; paths with a step back. Within four standard errors.
  const auto check_share = [&](int count, double share) {
    CHECK(std::abs(count / double{kPaths} - share) <
          4 * std::sqrt(share * (1 - share) * (1.0 / kPaths + 1.0 / 40'000)));
  };
  const double lengths[] = {0.04115, 0.14100, 0.21683, 0.20873, 0.18223, 0.12793, 0.06773, 0.01108};
  for (int i = 0; i < 8; ++i) check_share(of_length[7 + i], lengths[i]);
  const double rows[] = {0.205, 0.156, 0.141, 0.149, 0.156, 0.418, 0.032};
  for (int y = 0; y < 7; ++y) check_share(rows_in_the_middle[y], rows[y]);
  check_share(back, 0.001975);
}

TEST_CASE("mystery path: off the path one falls, is back at the origin with the next step, and the goal pays") {
  MysteryPath::Options options;
  options.progress_reward = 0.5;
  options.fall_reward = -0.25;
  options.step_reward = -0.125;
  const MysteryPath::Params params = params_of(options);
  MysteryPath::State state = along_row(params, 2);
  CHECK(observe(params, state) == codes({{0, 7}, {2, 7}, {0, 4}, {-1, 1}}));
  CHECK(MysteryPath::phase(params, state) == "origin");
  CHECK(step(params, state, kRight).reward == -0.125f);
  CHECK(step(params, state, kForward).reward == 0.375f);
  CHECK(step(params, state, kForward).reward == 0.375f);
  CHECK(observe(params, state) == codes({{2, 7}, {2, 7}, {3, 4}, {-1, 1}}));
  CHECK(MysteryPath::phase(params, state) == "path");
  CHECK(step(params, state, kLeft).reward == -0.125f);
  CHECK(step(params, state, kForward).reward == -0.375f);
  CHECK(observe(params, state) == codes({{2, 7}, {1, 7}, {0, 4}, {0, 1}}));
  CHECK(MysteryPath::phase(params, state) == "fallen");
  Outcome outcome = step(params, state, kForward);
  CHECK(outcome.reward == -0.125f);
  CHECK(observe(params, state) == codes({{0, 7}, {2, 7}, {0, 4}, {-1, 1}}));
  // The cells of before pay no second time, the others do.
  for (int x = 1; x < 6; ++x) CHECK(go(params, state, memory_gym::kRight).reward == (x < 3 ? -0.125f : 0.375f));
  outcome = go(params, state, memory_gym::kRight);
  CHECK(outcome.reward == 0.875f);
  CHECK(outcome.end == End::kTerminated);
  CHECK(MysteryPath::success(params, state));
  CHECK(MysteryPath::phase(params, state) == "goal");
}

TEST_CASE("mystery path: the border stops the agent, and an episode is cut after max_steps") {
  MysteryPath::Options options;
  options.max_steps = 5;
  const MysteryPath::Params params = params_of(options);
  MysteryPath::State state = along_row(params, 0);
  for (int t = 1; t < 5; ++t) CHECK(step(params, state, kForward).end == End::kNone);
  CHECK(state.agent.at == memory_gym::Cell{0, 0});
  const Outcome outcome = step(params, state, kStay);
  CHECK(outcome.end == End::kTruncated);
  CHECK(!MysteryPath::success(params, state));
}

TEST_CASE("mystery path: with shows_ends the origin and the goal are seen") {
  MysteryPath::Options options;
  options.shows_ends = true;
  const MysteryPath::Params params = params_of(options);
  const MysteryPath::State state = along_row(params, 3);
  CHECK(observe(params, state) == codes({{0, 7}, {3, 7}, {0, 4}, {-1, 1}, {0, 7}, {3, 7}, {6, 7}, {3, 7}}));
  CHECK(settings_error("mystery_path", {{"shows_ends", "true"}, {"endless", "true"}}) ==
        "task.shows_ends = 'true' is not allowed with task.endless = 'true', whose path has no goal to see");
}

TEST_CASE("mystery path, endless: two falls in one place, a fall short of the farthest column, or no progress end it") {
  MysteryPath::Options options;
  options.endless = true;
  options.segments = 2;
  options.stamina = 6;
  options.progress_reward = options.goal_reward = 0.1;
  const MysteryPath::Params params = params_of(options);
  const auto walked = [&](int columns) {
    MysteryPath::State state = along_row(params, 3);
    for (int x = 0; x < columns; ++x) CHECK(go(params, state, memory_gym::kRight).reward == 0.1f);
    return state;
  };
  {
    MysteryPath::State state = walked(2);
    CHECK(go(params, state, memory_gym::kUp).end == End::kNone);
    CHECK(step(params, state, kStay).end == End::kNone);  // back
    for (int x = 0; x < 2; ++x) CHECK(go(params, state, memory_gym::kRight).reward == 0);
    SUBCASE("the same place") { CHECK(go(params, state, memory_gym::kUp).end == End::kTerminated); }
    SUBCASE("the other side") { CHECK(go(params, state, memory_gym::kDown).end == End::kNone); }
    SUBCASE("farther on, in that row") {
      CHECK(go(params, state, memory_gym::kRight).reward == 0.1f);
      CHECK(go(params, state, memory_gym::kUp).end == End::kNone);
    }
  }
  SUBCASE("not as far as before") {
    MysteryPath::State state = walked(3);
    CHECK(go(params, state, memory_gym::kLeft).reward == 0);
    CHECK(go(params, state, memory_gym::kDown).end == End::kTerminated);
  }
  SUBCASE("no progress") {
    MysteryPath::State state = walked(3);
    for (int t = 1; t < 6 - 1; ++t) CHECK(step(params, state, kStay).end == End::kNone);
    CHECK(step(params, state, kStay).end == End::kTerminated);
  }
  SUBCASE("a fall gives strength back, and so do the cells that were known") {
    MysteryPath::State state = walked(2);
    for (int t = 0; t < 3; ++t) step(params, state, kLeft);
    CHECK(state.stamina == 6 - 1 - 3);
    CHECK(state.agent.facing == memory_gym::kDown);
    CHECK(step(params, state, kForward).end == End::kNone);
    CHECK(state.stamina == 6 - 1);
    step(params, state, kStay);
    CHECK(state.stamina == 6 - 2);
    go(params, state, memory_gym::kRight);
    CHECK(state.stamina == 6 - 1);
  }
  SUBCASE("the end of the last segment") {
    MysteryPath::State state = walked(14);
    const Outcome outcome = go(params, state, memory_gym::kRight);
    CHECK(outcome.reward == 0.1f);
    CHECK(outcome.end == End::kTruncated);
    CHECK(MysteryPath::success(params, state));
  }
}

TEST_CASE("mystery path: what full_state shows is enough without memory, in both forms") {
  for (const int segments : {0, 1, 4, 8}) {
    MysteryPath::Options options;
    options.endless = segments > 0;
    options.segments = segments > 0 ? segments : 4;
    options.max_steps = 1000;
    options.full_state = true;
    const MysteryPath::Params params = params_of(options);
    int sides[2] = {};  // origins in the first column and elsewhere
    for (std::uint32_t episode = 0; episode < 300; ++episode) {
      Rng rng(1, Purpose::kTraining, 0, episode);
      MysteryPath::State state = MysteryPath::reset(params, rng);
      ++sides[state.origin.x == 0 ? 0 : 1];
      CHECK(state.agent.at == state.origin);
      for (End end = End::kNone; end == End::kNone;) {
        const std::vector<float> seen = observe(params, state);
        int facing = -1, way = -1;
        for (int direction = 0; direction < 4; ++direction) {
          if (seen[seen.size() - 9 + static_cast<std::size_t>(direction)] == 1) facing = direction;
          if (seen[seen.size() - 4 + static_cast<std::size_t>(direction)] == 1) way = direction;
        }
        const int action = way == facing ? kForward : (way - facing + 4) % 4 == 1 ? kLeft : kRight;
        end = step(params, state, action).end;
        REQUIRE(!state.fallen);
      }
      REQUIRE(MysteryPath::success(params, state));
      CHECK(state.t <= 48 * segments + 48);
    }
    if (segments > 0)
      CHECK(sides[1] == 0);
    else
      CHECK(sides[1] > 200);
  }
}

TEST_CASE("mystery path is drawn as it is") {
  const MysteryPath::Params params = params_of({});
  MysteryPath::State state = along_row(params, 1);
  for (int x = 0; x < 2; ++x) go(params, state, memory_gym::kRight);
  Canvas canvas;
  const auto meaning = [&](int row, int column) -> std::string {
    for (const ColourMeaning& colour : MysteryPath::colours(params))
      if (colour.colour == canvas.at(row, column)) return colour.meaning;
    return "";
  };
  MysteryPath::draw(params, state, canvas);
  CHECK(canvas.rows() == 7);
  CHECK(canvas.columns() == 7);
  CHECK(canvas.arrow()->facing == Facing::kRight);
  CHECK(meaning(1, 0) == "origin");
  CHECK(meaning(1, 1) == "path, walked on");
  CHECK(meaning(1, 2) == "agent");
  CHECK(meaning(1, 3) == "path, not walked on");
  CHECK(meaning(1, 6) == "goal");
  CHECK(meaning(0, 0) == "off the path");
  go(params, state, memory_gym::kDown);
  MysteryPath::draw(params, state, canvas);
  CHECK(meaning(2, 2) == "the agent, fallen");
}
