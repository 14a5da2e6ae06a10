// The rules of MiniGrid's RedBlueDoors and DoorKey.
#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "envs/tasks/minigrid/door_key.h"
#include "envs/tasks/minigrid/red_blue_doors.h"

using namespace engram;
using minigrid::kDrop;
using minigrid::kForward;
using minigrid::kLeft;
using minigrid::kPickUp;
using minigrid::kRight;
using minigrid::kToggle;
using Doors = RedBlueDoors;

namespace {

using Image = std::vector<std::uint8_t>;
constexpr int kCells = 49, kOwnCell = 45;

template <class Task>
typename Task::Params params_of(int size, bool full_state = false,
                                minigrid::CodeBytes codes = minigrid::CodeBytes::kOriginal) {
  typename Task::Options options;
  options.size = size;
  options.full_state = full_state;
  options.observed.codes = codes;
  return Task::make_params(options, 1, Purpose::kTest);
}

template <class Task>
Image image_of(const typename Task::Params& params, const typename Task::State& state) {
  const auto elements = static_cast<std::size_t>(Task::observation_parts(params)[0].elements());
  Image image(elements);
  Task::observe(params, state, image.data());
  return image;
}

template <class Task>
Outcome play(const typename Task::Params& params, typename Task::State& state, std::initializer_list<int> actions) {
  Outcome outcome{};
  Rng rng(0, Purpose::kTest, 0, 0);
  for (const int action : actions) {
    REQUIRE(outcome.end == End::kNone);
    outcome = Task::step(params, state, action, rng);
    if (outcome.end == End::kNone) REQUIRE(outcome.reward == 0);
  }
  return outcome;
}

bool near_odds(int found, double odds, int trials) {
  return std::abs(found - odds * trials) <= 5 * std::sqrt(odds * (1 - odds) * trials);
}

}  // namespace

TEST_CASE("RedBlueDoors: the blue door ends the episode, with success if the red one is open") {
  const Doors::Params params = params_of<Doors>(6);
  // In the middle of the room between the two doors, which lie in columns 3 and 8, looking at the red one.
  const Doors::State first = Doors::start(params, {4, 2, 2}, 2, 2);
  Doors::State state = first;
  CHECK(play<Doors>(params, state, {kForward}).end == End::kNone);
  CHECK(state.agent.x == 4);  // closed
  CHECK(Doors::phase(params, state) == "to the red door");
  CHECK(play<Doors>(params, state, {kToggle}).end == End::kNone);
  CHECK(Doors::phase(params, state) == "to the blue door");
  CHECK_FALSE(Doors::decided(params, state));
  const Outcome right = play<Doors>(params, state, {kLeft, kLeft, kForward, kForward, kForward, kToggle});
  CHECK(right.end == End::kTerminated);
  CHECK(right.reward == minigrid::success_reward(8, 720));
  CHECK(Doors::success(params, state));
  CHECK(Doors::decided(params, state));

  state = first;
  const Outcome wrong = play<Doors>(params, state, {kLeft, kLeft, kForward, kForward, kForward, kToggle});
  CHECK(wrong.end == End::kTerminated);
  CHECK(wrong.reward == 0);
  CHECK_FALSE(Doors::success(params, state));
  CHECK(Doors::decided(params, state));

  state = first;  // opened, and closed again
  CHECK(play<Doors>(params, state, {kToggle, kToggle, kLeft, kLeft, kForward, kForward, kForward, kToggle}).reward ==
        0);
  CHECK_FALSE(Doors::success(params, state));

  state = first;  // through the open door, and nothing else opens or moves it
  play<Doors>(params, state, {kToggle, kPickUp, kDrop, minigrid::kDone, kForward, kForward});
  CHECK(state.agent.x == 2);
  CHECK(state.red_open);
  play<Doors>(params, state, {kLeft, kLeft, kForward, kToggle});
  CHECK(state.agent.x == 3);
  CHECK(state.red_open);  // it stands in it

  state = first;
  for (int t = 1; t < 720; ++t) REQUIRE(play<Doors>(params, state, {kRight}).end == End::kNone);
  CHECK(play<Doors>(params, state, {kRight}).end == End::kTruncated);
  CHECK_FALSE(Doors::decided(params, state));
  state = first;
  play<Doors>(params, state, {kToggle, kLeft, kLeft, kForward, kForward, kForward});
  state.t = 719;  // success with the last step
  const Outcome last = play<Doors>(params, state, {kToggle});
  CHECK(last.end == End::kTerminated);
  CHECK(last.reward == minigrid::success_reward(720, 720));
}

TEST_CASE("RedBlueDoors: agent, direction and doors are drawn with even odds in the room") {
  for (const int size : {4, 6, 8}) {
    const Doors::Params params = params_of<Doors>(size);
    constexpr int kEpisodes = 20'000;
    std::map<std::pair<int, int>, int> cells;
    int directions[4] = {};
    std::map<int, int> red, blue;
    for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      const Doors::State state = Doors::reset(params, rng);
      ++cells[{state.agent.x, state.agent.y}];
      ++directions[state.agent.direction];
      ++red[state.red_y];
      ++blue[state.blue_y];
    }
    const int inside = size - 2;
    CHECK(cells.size() == static_cast<std::size_t>(inside * inside));
    for (int x = size / 2 + 1; x < size / 2 + size - 1; ++x)
      for (int y = 1; y <= inside; ++y) CHECK(near_odds(cells[{x, y}], 1.0 / (inside * inside), kEpisodes));
    for (const int count : directions) CHECK(near_odds(count, 0.25, kEpisodes));
    for (int y = 1; y <= inside; ++y) {
      CHECK(near_odds(red[y], 1.0 / inside, kEpisodes));
      CHECK(near_odds(blue[y], 1.0 / inside, kEpisodes));
    }
  }
}

TEST_CASE("RedBlueDoors: the red door is a cue while it is out of sight, and held in the full state") {
  const Doors::Params plain = params_of<Doors>(6), full = params_of<Doors>(6, true);
  Rng random(3, Purpose::kAction, 0, 0);
  int open = 0, closed = 0, in_sight = 0, not_yet = 0;
  for (std::uint32_t episode = 0; episode < 40; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    Doors::State state = Doors::reset(plain, rng);
    bool seen = false;
    for (End end = End::kNone; end == End::kNone;) {
      const Image image = image_of<Doors>(plain, state), with_door = image_of<Doors>(full, state);
      bool sees = false;
      for (int cell = 0; cell < kCells; ++cell) {
        const bool red = image[cell] == 4 && image[kCells + cell] == 0;
        if (red) REQUIRE((image[2 * kCells + cell] == 0) == state.red_open);
        sees = sees || (red && cell != kOwnCell);
        for (int channel = 0; cell != kOwnCell && channel < 3; ++channel)
          REQUIRE(with_door[channel * kCells + cell] == image[channel * kCells + cell]);
      }
      sees = sees || (state.agent.x == 3 && state.agent.y == state.red_y);  // it stands in it
      seen = seen || sees;
      REQUIRE(image[kOwnCell] == 1);
      REQUIRE(with_door[kOwnCell] == 4);
      REQUIRE(with_door[kCells + kOwnCell] == 0);
      REQUIRE(with_door[2 * kCells + kOwnCell] == (state.red_open ? 0 : 1));
      const auto cue = Doors::cue(plain, state);
      REQUIRE(cue.has_value() == (seen && !sees));
      if (cue) REQUIRE(cue->text == (state.red_open ? "red door open" : "red door closed"));
      CHECK_FALSE(Doors::cue(full, state));
      ++(cue ? state.red_open ? open : closed : sees ? in_sight : not_yet);

      Canvas canvas;
      Doors::draw(plain, state, canvas);
      REQUIRE((canvas.rows() == 6 && canvas.columns() == 12));
      REQUIRE(canvas.at(state.agent.y, state.agent.x) == Rgb{228, 148, 109});
      if (!(state.agent.x == 3 && state.agent.y == state.red_y))
        REQUIRE((canvas.at(state.red_y, 3) == Rgb{200, 0, 0}) == !state.red_open);
      end = Doors::step(plain, state, static_cast<int>(random.below(7)), rng).end;
    }
  }
  for (const int count : {open, closed, in_sight, not_yet}) CHECK(count > 50);
}

TEST_CASE("DoorKey: the key unlocks the door, and the goal behind it ends the episode") {
  const DoorKey::Params params = params_of<DoorKey>(5);
  // The wall in column 2 with the door in row 1; the agent in row 2 looks up, the key lies below it.
  const DoorKey::State first = DoorKey::start(params, {1, 2, 3}, 2, 1, 1, 3);
  DoorKey::State state = first;
  CHECK(DoorKey::phase(params, state) == "to the key");
  play<DoorKey>(params, state, {kForward, kRight, kToggle, kForward});
  CHECK(state.door == minigrid::kLocked);  // without the key
  CHECK(state.agent.x == 1);
  play<DoorKey>(params, state, {kPickUp, kDrop});
  CHECK(state.door == minigrid::kLocked);

  state = first;
  play<DoorKey>(params, state, {kLeft, kLeft, kForward});
  CHECK(state.agent.y == 2);  // the key is in the way
  play<DoorKey>(params, state, {kPickUp});
  CHECK(DoorKey::phase(params, state) == "to the door");
  Image image = image_of<DoorKey>(params, state);
  CHECK(image[kOwnCell] == minigrid::kKey);
  CHECK(image[kCells + kOwnCell] == minigrid::kYellow);
  play<DoorKey>(params, state, {kPickUp, kDrop});
  CHECK(state.key.x == 1);
  CHECK(state.key.y == 3);
  CHECK(image_of<DoorKey>(params, state)[kOwnCell] == minigrid::kEmpty);
  play<DoorKey>(params, state, {kPickUp, kForward, kDrop});
  CHECK(state.key.x == DoorKey::kNowhere);  // not onto a wall
  play<DoorKey>(params, state, {kLeft, kLeft, kForward, kForward, kRight, kDrop});
  CHECK(state.key.x == DoorKey::kNowhere);  // nor into a door
  play<DoorKey>(params, state, {kToggle});
  CHECK(state.door == minigrid::kOpen);
  CHECK(DoorKey::phase(params, state) == "to the goal");
  play<DoorKey>(params, state, {kToggle, kForward});
  CHECK(state.door == minigrid::kClosed);
  CHECK(state.agent.x == 1);
  play<DoorKey>(params, state, {kToggle, kForward, kForward, kRight, kForward, kDrop});
  CHECK(state.agent.x == 3);
  CHECK(state.agent.y == 2);
  CHECK(state.key.x == DoorKey::kNowhere);  // nor onto the goal
  CHECK_FALSE(DoorKey::success(params, state));
  const int steps = state.t;
  const Outcome end = play<DoorKey>(params, state, {kForward});
  CHECK(end.end == End::kTerminated);
  CHECK(end.reward == minigrid::success_reward(steps + 1, 250));
  CHECK(DoorKey::success(params, state));

  state = first;  // a key that was dropped unlocks nothing; a door once unlocked needs none
  play<DoorKey>(params, state,
                {kLeft, kLeft, kPickUp, kLeft, kLeft, kForward, kRight, kToggle, kToggle, kRight, kDrop});
  CHECK(state.key.y == 2);
  play<DoorKey>(params, state, {kLeft, kToggle});
  CHECK(state.door == minigrid::kOpen);

  state = first;
  for (int t = 1; t < 250; ++t) REQUIRE(play<DoorKey>(params, state, {kLeft}).end == End::kNone);
  CHECK(play<DoorKey>(params, state, {kLeft}).end == End::kTruncated);
}

TEST_CASE("DoorKey: the layout is drawn with even odds, agent and key in different cells") {
  for (const int size : {5, 6, 8, 16}) {
    const DoorKey::Params params = params_of<DoorKey>(size);
    constexpr int kEpisodes = 40'000;
    std::map<int, int> walls, doors, episodes_with_wall;
    std::map<std::array<int, 4>, int> places;  // of the first wall: agent, key
    int directions[4] = {};
    for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      const DoorKey::State state = DoorKey::reset(params, rng);
      ++walls[state.wall_x];
      ++doors[state.door_y];
      ++directions[state.agent.direction];
      REQUIRE((state.agent.x >= 1 && state.agent.x < state.wall_x && state.agent.y >= 1 && state.agent.y <= size - 2));
      REQUIRE((state.key.x >= 1 && state.key.x < state.wall_x && state.key.y >= 1 && state.key.y <= size - 2));
      REQUIRE((state.key.x != state.agent.x || state.key.y != state.agent.y));
      REQUIRE(state.door == minigrid::kLocked);
      if (state.wall_x == 2) ++places[{state.agent.x, state.agent.y, state.key.x, state.key.y}];
    }
    CHECK(walls.size() == static_cast<std::size_t>(size - 4));
    for (int x = 2; x <= size - 3; ++x) CHECK(near_odds(walls[x], 1.0 / (size - 4), kEpisodes));
    CHECK(doors.size() == static_cast<std::size_t>(size - 3));
    for (int y = 1; y <= size - 3; ++y) CHECK(near_odds(doors[y], 1.0 / (size - 3), kEpisodes));
    for (const int count : directions) CHECK(near_odds(count, 0.25, kEpisodes));
    const int pairs = (size - 2) * (size - 3);
    CHECK(places.size() == static_cast<std::size_t>(pairs));
    for (const auto& [place, count] : places) CHECK(near_odds(count, 1.0 / pairs, walls[2]));
  }
}

TEST_CASE("DoorKey: the full state shows the maze from above, and what the agent holds") {
  for (const int size : {5, 8}) {
    const DoorKey::Params full = params_of<DoorKey>(size, true);
    const DoorKey::Params wide = params_of<DoorKey>(size, true, minigrid::CodeBytes::kSpread);
    CHECK(DoorKey::observation_parts(full)[0].shape == std::vector<std::int64_t>{3, size, size});
    Rng random(3, Purpose::kAction, 0, 0);
    std::set<int> door_states;
    int held = 0;
    for (std::uint32_t episode = 0; episode < 30; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      DoorKey::State state = DoorKey::reset(full, rng);
      for (End end = End::kNone; end == End::kNone;) {
        const Image image = image_of<DoorKey>(full, state), spread = image_of<DoorKey>(wide, state);
        const int cells = size * size;
        constexpr int kFactors[] = {25, 51, 85};
        for (int i = 0; i < 3 * cells; ++i) REQUIRE(spread[i] == kFactors[i / cells] * image[i]);
        const bool holds_key = state.key.x == DoorKey::kNowhere;
        held += holds_key;
        door_states.insert(state.door);
        const auto codes = [&](int x, int y) {
          const int cell = y * size + x;
          return std::array<int, 3>{image[cell], image[cells + cell], image[2 * cells + cell]};
        };
        Canvas canvas;
        DoorKey::draw(full, state, canvas);
        for (int y = 0; y < size; ++y)
          for (int x = 0; x < size; ++x) {
            const bool wall = x == 0 || y == 0 || x == size - 1 || y == size - 1 || x == state.wall_x;
            std::array<int, 3> expected = wall ? std::array<int, 3>{2, 5, 0} : std::array<int, 3>{1, 0, 0};
            if (x == 0 && y == 0) expected = holds_key ? std::array<int, 3>{5, 4, 0} : std::array<int, 3>{1, 0, 0};
            if (x == size - 2 && y == size - 2) expected = {8, 1, 0};
            if (x == state.wall_x && y == state.door_y) expected = {4, 4, state.door};
            if (x == state.key.x && y == state.key.y) expected = {5, 4, 0};
            if (x == state.agent.x && y == state.agent.y) expected = {10, 0, state.agent.direction};
            REQUIRE(codes(x, y) == expected);
            if (x != 0 || y != 0) REQUIRE((canvas.at(y, x) == Rgb{25, 25, 25}) == (expected[0] == 2));
            REQUIRE((canvas.at(y, x) == Rgb{228, 148, 109}) == (expected[0] == 10));
            REQUIRE((canvas.at(y, x) == Rgb{230, 180, 0}) == (expected[0] == 5));  // the key, unlike its door
          }
        end = DoorKey::step(full, state, static_cast<int>(random.below(7)), rng).end;
      }
    }
    CHECK(held > 0);
    CHECK(door_states.size() == 3);
  }
}
