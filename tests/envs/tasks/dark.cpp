// The dark rooms, held against a second, plain set of rules, and what is drawn of them.
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

using Place = std::array<int, 2>;

std::unique_ptr<VecEnv> make(const std::string& name, const Settings& settings, bool full_state) {
  return single_env(name, with_full_state(settings, full_state));
}

// Either task by rules of its own, of places as pairs of integers.
struct PlainRoom {
  bool has_door, pays_once;
  int size, attempt_steps, steps;
  Place start, goal, key;      // goal: the door, where there is one
  std::array<Place, 5> moves;  // of the actions
  Place place = start;
  int time = 0, clock = 0;  // of the episode, of the attempt
  bool waits = false, key_taken = false, reached = false;
  std::vector<bool> results = {};  // of attempts that came to their end

  float act(int action) {
    ++time;
    if (waits) {
      place = start;
      clock = 0;
      waits = key_taken = reached = false;
      return 0;
    }
    ++clock;
    for (int i = 0; i < 2; ++i) place[i] = std::clamp(place[i] + moves[action][i], 0, size - 1);
    float pay = 0;
    if (has_door) {
      if (key_taken) {
        reached = place == goal;
        pay = reached ? 1 : 0;
      } else if (place == key) {
        key_taken = true;
        pay = 1;
      }
    } else if (place == goal) {
      pay = pays_once && reached ? 0 : 1;
      reached = true;
    }
    waits = clock == attempt_steps || (has_door && reached);
    if (waits) results.push_back(reached);
    return pay;
  }
  bool solved() const {
    const auto first = std::find(results.begin(), results.end(), true);
    return first != results.end() && first + 1 != results.end() &&
           std::find(first, results.end(), false) == results.end();
  }
  std::vector<float> observation() const {
    const auto share = [](int number, int of) { return static_cast<float>(static_cast<double>(number) / of); };
    return {share(place[0], size), share(place[1], size), (has_door ? key_taken : reached) ? 1.0f : 0.0f,
            share(clock, attempt_steps)};
  }
};

// The layout, as the control shows it.
PlainRoom layout_of(const VecEnv& full, bool has_door, bool pays_once, bool shuffled, int size, int attempt_steps) {
  const std::vector<float> shown = observation_of(full);
  const auto place = [&](std::size_t at) {
    return Place{static_cast<int>(std::lround(shown[at] * size)), static_cast<int>(std::lround(shown[at + 1] * size))};
  };
  PlainRoom room{has_door,
                 pays_once,
                 size,
                 attempt_steps,
                 full.info().max_episode_steps,
                 place(0),
                 place(4),
                 has_door ? place(6) : Place{},
                 {Place{0, -1}, Place{-1, 0}, Place{0, 1}, Place{1, 0}, Place{0, 0}}};
  const std::size_t moves = has_door ? 8 : 6;
  REQUIRE(shown.size() == moves + (shuffled ? 10 : 0));
  for (std::size_t i = 0; shuffled && i < 5; ++i)
    room.moves[i] = {static_cast<int>(shown[moves + 2 * i]), static_cast<int>(shown[moves + 2 * i + 1])};
  return room;
}

}  // namespace

TEST_CASE("dark rooms: observations, rewards and ends are those of plain rules, in the dark and lit") {
  for (const bool has_door : {false, true})
    for (const bool shuffled : {false, true})
      for (const bool random_start : {false, true})
        for (const bool pays_once : {false, true}) {
          if (has_door && pays_once) continue;
          const int size = shuffled ? 2 : 3, attempt_steps = has_door ? 24 : 12;
          Settings settings = {{"size", std::to_string(size)},
                               {"attempt_steps", std::to_string(attempt_steps)},
                               {"max_steps", "40"},
                               {"random_start", random_start ? "true" : "false"},
                               {"random_actions", shuffled ? "true" : "false"}};
          if (pays_once) settings.emplace_back("pays_once", "true");
          const std::string name = has_door ? "dark_key_to_door" : "dark_room";
          const auto dark = make(name, settings, false), full = make(name, settings, true);
          CHECK(dark->info().observation.shape() == std::vector<std::int64_t>{4});
          Rng random(5, Purpose::kTest, 0, 0);
          int solved = 0;
          std::set<Place> starts;
          for (std::uint32_t episode = 0; episode < 200; ++episode) {
            dark->reset_all(episode);
            full->reset_all(episode);
            PlainRoom plain = layout_of(*full, has_door, pays_once, shuffled, size, attempt_steps);
            plain.place = plain.start;
            starts.insert(plain.start);
            for (int t = 0; t <= 40; ++t) {
              const std::vector<float> seen = observation_of(*dark), lit = observation_of(*full);
              REQUIRE(seen == plain.observation());
              REQUIRE(std::equal(seen.begin(), seen.end(), lit.begin()));
              REQUIRE(layout_of(*full, has_door, pays_once, shuffled, size, attempt_steps).goal == plain.goal);
              REQUIRE((dark->success_N()[0] == 1) == plain.solved());
              const bool known = std::find(plain.results.begin(), plain.results.end(), true) != plain.results.end();
              REQUIRE(dark->phase(0) == (known ? "exploit" : "explore"));
              REQUIRE(dark->end_N()[0] == (t == 40 ? End::kTerminated : End::kNone));
              if (t == 40) break;
              const auto action = static_cast<std::int32_t>(random.below(5));
              step(*dark, action);
              step(*full, action);
              REQUIRE(dark->reward_N()[0] == plain.act(action));
              REQUIRE(full->reward_N()[0] == dark->reward_N()[0]);
            }
            solved += plain.solved();
          }
          CHECK(solved > 5);
          CHECK(solved < 195);
          CHECK(starts.size() == static_cast<std::size_t>(random_start ? size * size : 1));
          if (!random_start) CHECK(*starts.begin() == Place{size / 2, size / 2});
        }
}

TEST_CASE("dark rooms: places and orders of the actions are drawn uniformly and independently") {
  const auto environment =
      make("dark_key_to_door", {{"size", "2"}, {"max_steps", "1"}, {"random_actions", "true"}}, true);
  std::map<std::vector<float>, int> layouts, orders;
  constexpr int kEpisodes = 12'800;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    environment->reset_all(episode);
    const std::vector<float> shown = observation_of(*environment);
    std::vector<float> layout = {shown[0], shown[1]};
    layout.insert(layout.end(), shown.begin() + 4, shown.begin() + 8);
    ++layouts[layout];
    ++orders[{shown.begin() + 8, shown.end()}];
  }
  CHECK(layouts.size() == 64);
  CHECK(orders.size() == 120);
  const auto chi_squared = [](const std::map<std::vector<float>, int>& counts) {
    const double expected = static_cast<double>(kEpisodes) / static_cast<double>(counts.size());
    double sum = 0;
    for (const auto& [value, count] : counts) sum += (count - expected) * (count - expected) / expected;
    return sum;
  };
  CHECK(chi_squared(layouts) < 112);  // 63 degrees of freedom, 99.99%
  CHECK(chi_squared(orders) < 185);   // 119
}

TEST_CASE("dark key-to-door: what the agent does not see is drawn") {
  const auto environment = make("dark_key_to_door", {{"size", "4"}, {"max_steps", "300"}}, true);
  const Rgb key_colour{230, 180, 0}, door_colour{134, 206, 235}, player{228, 148, 109}, start{170, 170, 200};
  Rng random(5, Purpose::kTest, 0, 0);
  int with_key = 0;
  for (environment->reset_all(3); environment->end_N()[0] == End::kNone;
       step(*environment, static_cast<std::int32_t>(random.below(5)))) {
    const std::vector<float> shown = observation_of(*environment);
    Canvas canvas;
    environment->draw(0, canvas);
    REQUIRE(canvas.rows() == 4);
    const auto colour = [&](std::size_t at) {
      return canvas.at(static_cast<int>(shown[at] * 4), static_cast<int>(shown[at + 1] * 4));
    };
    REQUIRE(colour(0) == player);
    const bool has_key = shown[2] == 1;
    with_key += has_key;
    const auto same = [&](std::size_t a, std::size_t b) {
      return shown[a] == shown[b] && shown[a + 1] == shown[b + 1];
    };
    if (!same(4, 0) && !same(4, 6)) REQUIRE(colour(4) == door_colour);
    if (!same(6, 0) && !same(6, 4)) REQUIRE((colour(6) == key_colour) == !has_key);
  }
  CHECK(with_key > 0);
  environment->reset_all(3);
  Canvas canvas;
  environment->draw(0, canvas);
  int starts = 0;
  for (int row = 0; row < 4; ++row)
    for (int column = 0; column < 4; ++column) starts += canvas.at(row, column) == start;
  CHECK(starts == 0);  // under the agent
}

TEST_CASE("dark room: the goal is drawn, and turns green once the attempt has reached it") {
  const auto environment = make("dark_room", {{"size", "3"}}, true);
  const Rgb goal{0, 90, 220}, reached{0, 150, 0};
  Rng random(5, Purpose::kTest, 0, 0);
  int before = 0, after = 0;
  for (environment->reset_all(1); environment->end_N()[0] == End::kNone;
       step(*environment, static_cast<std::int32_t>(random.below(5)))) {
    const std::vector<float> shown = observation_of(*environment);
    if (shown[0] == shown[4] && shown[1] == shown[5]) continue;
    Canvas canvas;
    environment->draw(0, canvas);
    const Rgb colour =
        canvas.at(static_cast<int>(std::lround(shown[4] * 3)), static_cast<int>(std::lround(shown[5] * 3)));
    REQUIRE(colour == (shown[2] == 1 ? reached : goal));
    ++(shown[2] == 1 ? after : before);
  }
  CHECK(before > 5);
  CHECK(after > 5);
}
