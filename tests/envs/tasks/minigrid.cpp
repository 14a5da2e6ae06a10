// What MiniGrid's agent sees, against the reference's way from cell to cell, and the rules of its tasks.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/tasks/minigrid/minigrid_memory.h"
#include "tests/envs/single_env.h"

using namespace engram;
using namespace engram::testing;

namespace {

using Image = std::vector<std::uint8_t>;
constexpr int kCells = 49, kOwnCell = 45, kFrontCell = 38;

Image image_of(const VecEnv& environment) {
  const auto bytes = environment.observation_N();
  Image image(bytes.size());
  std::memcpy(image.data(), bytes.data(), bytes.size());
  return image;
}

// ---- The reference's way to a view: cut, turn, spread from cell to cell. Three codes a cell, [column][row]. ----

struct Grid {
  int width, height;
  std::vector<minigrid::Codes> cells;

  Grid(int columns, int rows, minigrid::Codes fill)
      : width(columns), height(rows), cells(static_cast<std::size_t>(columns * rows), fill) {}
  minigrid::Codes& at(int x, int y) { return cells[static_cast<std::size_t>(y * width + x)]; }
};
constexpr minigrid::Codes kWallCodes{2, 5, 0};

bool see_behind(minigrid::Codes cell) { return cell.object != 2 && !(cell.object == 4 && cell.state != 0); }

Image reference_view(Grid grid, minigrid::Agent agent, minigrid::Codes held) {
  const int left[] = {agent.x, agent.x - 3, agent.x - 6, agent.x - 3};
  const int top[] = {agent.y - 3, agent.y, agent.y - 3, agent.y - 6};
  Grid view(7, 7, kWallCodes);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) {
      const int x = left[agent.direction] + i, y = top[agent.direction] + j;
      if (x >= 0 && x < grid.width && y >= 0 && y < grid.height) view.at(i, j) = grid.at(x, y);
    }
  for (int turn = 0; turn <= agent.direction; ++turn) {
    Grid turned(7, 7, kWallCodes);
    for (int i = 0; i < 7; ++i)
      for (int j = 0; j < 7; ++j) turned.at(j, 6 - i) = view.at(i, j);
    view = turned;
  }
  bool mask[7][7] = {};
  mask[3][6] = true;
  for (int j = 6; j >= 0; --j) {
    for (int i = 0; i < 6; ++i) {
      if (!mask[i][j] || !see_behind(view.at(i, j))) continue;
      mask[i + 1][j] = true;
      if (j > 0) mask[i + 1][j - 1] = mask[i][j - 1] = true;
    }
    for (int i = 6; i > 0; --i) {
      if (!mask[i][j] || !see_behind(view.at(i, j))) continue;
      mask[i - 1][j] = true;
      if (j > 0) mask[i - 1][j - 1] = mask[i][j - 1] = true;
    }
  }
  view.at(3, 6) = held;
  Image image(3 * kCells);
  for (int i = 0; i < 7; ++i)
    for (int j = 0; j < 7; ++j) {
      if (!mask[i][j]) continue;
      const minigrid::Codes cell = view.at(i, j);
      image[j * 7 + i] = cell.object;
      image[kCells + j * 7 + i] = cell.colour;
      image[2 * kCells + j * 7 + i] = cell.state;
    }
  return image;
}

}  // namespace

TEST_CASE("a view of any maze is the reference's, from every cell and in every direction") {
  Rng random(1, Purpose::kTest, 0, 0);
  const auto below = [&random](int count) { return static_cast<int>(random.below(static_cast<std::uint32_t>(count))); };
  int hidden = 0, through_doors = 0;
  for (int maze = 0; maze < 400; ++maze) {
    const int width = 3 + below(15), height = 3 + below(15), density = below(4);
    std::vector<std::string> map(static_cast<std::size_t>(height), std::string(static_cast<std::size_t>(width), ' '));
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        if (x == 0 || y == 0 || x == width - 1 || y == height - 1 || below(10) < density) map[y][x] = '#';
    constexpr minigrid::Codes kCodes[] = {{5, 1, 0}, {6, 1, 0}, {4, 0, 0}, {4, 2, 1}, {4, 4, 2}, {8, 1, 0}};
    minigrid::Item items[minigrid::kMaxItems];
    std::set<std::pair<int, int>> taken;
    for (minigrid::Item& item : items) {
      do {
        item = {kCodes[below(6)], static_cast<std::uint8_t>(below(width)), static_cast<std::uint8_t>(below(height))};
      } while (taken.size() < static_cast<std::size_t>(width * height) && !taken.insert({item.x, item.y}).second);
    }
    Grid grid(width, height, minigrid::nothing());
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        if (map[y][x] == '#') grid.at(x, y) = kWallCodes;
    for (const minigrid::Item& item : items) grid.at(item.x, item.y) = item.codes;
    const minigrid::Walls walls = minigrid::make_walls(map);
    for (int y = 1; y < height - 1; ++y)
      for (int x = 1; x < width - 1; ++x) {
        REQUIRE(walls.at(x, y) == (map[y][x] == '#'));
        if (!see_behind(grid.at(x, y))) continue;  // nobody can stand there
        for (std::uint8_t direction = 0; direction < 4; ++direction) {
          const minigrid::Agent agent{static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(y), direction};
          const minigrid::Codes held = below(2) == 0 ? minigrid::nothing() : minigrid::Codes{5, 4, 0};
          constexpr std::uint8_t kCanary = 77;
          std::uint8_t padded[3 * kCells + 32];
          std::memset(padded, kCanary, sizeof padded);
          const minigrid::View view = minigrid::see(walls, agent, items);
          minigrid::show(view, items, held, {1, 1, 1}, padded + 16);
          for (int i = 0; i < 16; ++i) REQUIRE((padded[i] == kCanary && padded[3 * kCells + 31 - i] == kCanary));
          const Image expected = reference_view(grid, agent, held);
          REQUIRE(std::memcmp(padded + 16, expected.data(), expected.size()) == 0);
          for (const minigrid::Item& item : items) {
            const unsigned bit = minigrid::view_bit(agent, item.x, item.y);
            if (bit == minigrid::kOutOfView) continue;
            const unsigned cell = (6 - bit / 8) * 7 + bit % 8;
            REQUIRE(minigrid::sees(view, agent, item.x, item.y) == (expected[cell] != 0));
            hidden += expected[cell] == 0;
            through_doors += expected[cell] != 0 && item.codes.object == 4 && item.codes.state == 0;
          }
        }
      }
  }
  CHECK(hidden > 1000);
  CHECK(through_doors > 1000);
}

TEST_CASE("a maze that is too large or ragged is refused") {
  CHECK_THROWS_AS(minigrid::make_walls(std::vector<std::string>(18, "#")), std::invalid_argument);
  CHECK_THROWS_AS(minigrid::make_walls({std::string(18, '#')}), std::invalid_argument);
  CHECK_THROWS_AS(minigrid::make_walls({"###", "##"}), std::invalid_argument);
}

TEST_CASE("the reward of success is the same float whether or not the compiler fuses its product and sum") {
  for (int size = 5; size <= 17; ++size)
    for (const int factor : {5, 10, 20})
      for (int step = 1; step <= factor * size * size; ++step) {
        const double share = static_cast<double>(step) / (factor * size * size);
        REQUIRE(minigrid::success_reward(step, factor * size * size) == static_cast<float>(std::fma(-0.9, share, 1.0)));
        volatile const double product = 0.9 * share;
        REQUIRE(minigrid::success_reward(step, factor * size * size) == static_cast<float>(1 - product));
      }
}

// ---- Memory. ----

namespace {

const std::vector<Settings> kMemorySizes = {{{"size", "7"}},
                                            {{"size", "9"}},
                                            {{"size", "13"}},
                                            {{"size", "13"}, {"random_length", "true"}},
                                            {{"size", "17"}, {"random_length", "true"}}};

Settings with(Settings settings, const std::string& key, const std::string& value) {
  settings.emplace_back(key, value);
  return settings;
}

}  // namespace

TEST_CASE("MiniGrid's Memory: who sees the object all the time goes to its like; who does not, to either") {
  for (const Settings& size : kMemorySizes)
    for (const bool full_state : {true, false}) {
      const auto environment = single_env("minigrid_memory", with(size, "full_state", full_state ? "true" : "false"));
      constexpr std::uint32_t kEpisodes = 1000;
      int solved = 0;
      for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
        environment->reset_all(episode);
        int steps = 0;
        while (environment->end_N()[0] == End::kNone) {
          // Ahead to the end of the hall, and there to the side on which the object lies that the agent holds.
          const Image image = image_of(*environment);
          const bool free = image[kFrontCell] == 25 * minigrid::kEmpty;
          step(*environment, free                                     ? minigrid::kForward
                             : image[kOwnCell - 2] == image[kOwnCell] ? minigrid::kLeft
                                                                      : minigrid::kRight);
          ++steps;
        }
        REQUIRE(environment->end_N()[0] == End::kTerminated);
        const bool success = environment->success_N()[0] != 0;
        const int max_steps = environment->info().max_episode_steps;
        REQUIRE(environment->reward_N()[0] == (success ? minigrid::success_reward(steps, max_steps) : 0.0f));
        REQUIRE(environment->decided(0) == true);
        solved += success;
      }
      if (full_state) {
        CHECK(solved == kEpisodes);
      } else {
        const double chance = *environment->info().chance_success;
        CHECK(std::abs(solved - chance * kEpisodes) < 5 * std::sqrt(chance * (1 - chance) * kEpisodes));
      }
    }
}

TEST_CASE(
    "MiniGrid's Memory: in sizes 7 and 9 an agent without memory can do better, looking back and turning at random") {
  for (const char* const size : {"7", "9"}) {
    const auto environment = single_env("minigrid_memory", {{"size", size}, {"codes", "original"}});
    Rng random(3, Purpose::kAction, 0, 0);
    constexpr std::uint32_t kEpisodes = 1000;
    int solved = 0;
    for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
      environment->reset_all(episode);
      while (environment->end_N()[0] == End::kNone) {
        const Image image = image_of(*environment);
        const auto is_object = [&](int cell) {
          return image[cell] == minigrid::kKey || image[cell] == minigrid::kBall;
        };
        int action = minigrid::kForward;
        if (is_object(kOwnCell - 2) && is_object(kOwnCell + 2)) {
          // In the passage, between the objects: it looks at the wall, or back.
          action = minigrid::kLeft;
          if (image[kFrontCell] != minigrid::kWall)
            for (int cell = 0; cell < 42; ++cell)
              if (is_object(cell)) action = image[cell] == image[kOwnCell + 2] ? minigrid::kRight : minigrid::kLeft;
        } else if (is_object(kFrontCell - 7) && image[kOwnCell + 1] == minigrid::kWall && random.uniform() > 0.05f) {
          action = minigrid::kLeft;  // it looks up, the hall is to its left
        }
        step(*environment, action);
      }
      solved += environment->success_N()[0];
    }
    CHECK(solved > 900);
  }
}

TEST_CASE("MiniGrid's Memory: how many observations on end hold all three objects, by where the hall ends") {
  MiniGridMemory::Options options;
  options.size = 17;
  options.random_length = true;
  options.observed.codes = minigrid::CodeBytes::kOriginal;
  const MiniGridMemory::Params params = MiniGridMemory::make_params(options, 1, Purpose::kTraining);
  Rng rng(1, Purpose::kTest, 0, 0);
  const auto objects_in_sight = [&](const MiniGridMemory::State& state) {
    std::uint8_t image[3 * kCells + 1];  // a direction might follow
    MiniGridMemory::observe(params, state, image);
    return std::count_if(image, image + kCells,
                         [](std::uint8_t code) { return code == minigrid::kKey || code == minigrid::kBall; });
  };
  // From every cell of room and hall: it looks back, turns round and goes ahead until it sees the two.
  for (int hall_end = 4; hall_end <= 14; ++hall_end) {
    CAPTURE(hall_end);
    int fewest = 100;
    for (int x = 1; x <= hall_end; ++x) {
      MiniGridMemory::State state = MiniGridMemory::start(params, hall_end, x, /*is_key=*/true, /*upper_is_key=*/false);
      const auto take = [&](int action) { MiniGridMemory::step(params, state, action, rng); };
      take(minigrid::kLeft), take(minigrid::kLeft);
      if (objects_in_sight(state) != 1) continue;
      take(minigrid::kLeft), take(minigrid::kLeft);
      int observations = 3;
      for (; objects_in_sight(state) != 2 && observations < 20; ++observations) take(minigrid::kForward);
      fewest = std::min(fewest, observations);
    }
    CHECK(fewest == (hall_end <= 12 ? 3 : hall_end == 13 ? 4 : 5));
  }
}

TEST_CASE("MiniGrid's Memory: every layout is drawn with the same odds") {
  constexpr int kEpisodes = 44'000;
  MiniGridMemory::Options options;
  options.size = 17;
  options.random_length = true;
  const MiniGridMemory::Params params = MiniGridMemory::make_params(options, 1, Purpose::kTraining);
  int ends[17] = {}, keys = 0, upper_keys = 0, same = 0;
  double share_of_hall = 0;
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    const MiniGridMemory::State state = MiniGridMemory::reset(params, rng);
    ++ends[state.hall_end];
    REQUIRE((state.agent.x >= 1 && state.agent.x <= state.hall_end));
    REQUIRE((state.agent.y == 8 && state.agent.direction == 0));
    share_of_hall += (state.agent.x - 0.5) / state.hall_end;
    keys += state.object == minigrid::kKey;
    upper_keys += state.upper == minigrid::kKey;
    same += state.object == state.upper;
  }
  const auto within = [](int found, double odds) {
    return std::abs(found - odds * kEpisodes) <= 5 * std::sqrt(odds * (1 - odds) * kEpisodes);
  };
  for (int end = 0; end < 17; ++end) CHECK(within(ends[end], end >= 4 && end <= 14 ? 1.0 / 11 : 0));
  CHECK(within(keys, 0.5));
  CHECK(within(upper_keys, 0.5));
  CHECK(within(same, 0.5));
  CHECK(share_of_hall / kEpisodes == doctest::Approx(0.5).epsilon(0.01));
}

TEST_CASE("MiniGrid's tasks: tokens are the original's codes, and the direction is the agent's") {
  for (const char* const task : {"minigrid_memory", "red_blue_doors", "door_key"})
    for (const char* const full_state : {"false", "true"}) {
      CAPTURE(task);
      const auto original = single_env(task, {{"codes", "original"}, {"full_state", full_state}});
      const auto tokens = single_env(task, {{"codes", "tokens"}, {"full_state", full_state}, {"direction", "true"}});
      const ObservationSpec& spec = tokens->info().observation;
      REQUIRE(spec.parts.size() == 4);
      const auto cells = static_cast<std::size_t>(spec.parts[0].elements());
      REQUIRE(original->observation_N().size() == 3 * cells);
      Rng random(3, Purpose::kAction, 0, 0);
      int direction = -1, turns = 0;
      for (std::uint32_t episode = 0; episode < 5; ++episode) {
        for (VecEnv* const environment : {original.get(), tokens.get()}) environment->reset_all(episode);
        direction = -1;
        while (original->end_N()[0] == End::kNone) {
          const auto plain = original->observation_N(), with_direction = tokens->observation_N();
          REQUIRE(with_direction.size() == 3 * cells + 1);
          for (std::size_t i = 0; i < 3 * cells; ++i) {
            REQUIRE(plain[i] == with_direction[i]);
            REQUIRE(std::to_integer<int>(plain[i]) < spec.parts[i / cells].values);
          }
          const int shown = std::to_integer<int>(with_direction[3 * cells]);
          if (direction >= 0) REQUIRE(shown == direction);
          const auto action = static_cast<std::int32_t>(random.below(7));
          // 0 to 3: right, down, left, up.
          direction = (shown + (action == minigrid::kRight) + 3 * (action == minigrid::kLeft)) % 4;
          turns += direction != shown;
          for (VecEnv* const environment : {original.get(), tokens.get()}) step(*environment, action);
        }
      }
      CHECK(turns > 100);
    }
}

TEST_CASE("MiniGrid's Memory: original codes, spread ones and the full state show the same cells") {
  for (const Settings& size : kMemorySizes) {
    const auto original = single_env("minigrid_memory", with(size, "codes", "original"));
    const auto spread = single_env("minigrid_memory", with(size, "codes", "spread"));
    const auto full = single_env("minigrid_memory", with(with(size, "codes", "original"), "full_state", "true"));
    Rng random(3, Purpose::kAction, 0, 0);
    int objects_held[2] = {};
    for (std::uint32_t episode = 0; episode < 20; ++episode) {
      for (VecEnv* const environment : {original.get(), spread.get(), full.get()}) environment->reset_all(episode);
      while (original->end_N()[0] == End::kNone) {
        const Image codes = image_of(*original), wide = image_of(*spread), with_object = image_of(*full);
        constexpr int kFactors[] = {25, 51, 85};
        for (int i = 0; i < 3 * kCells; ++i) {
          REQUIRE(wide[i] == kFactors[i / kCells] * codes[i]);
          if (i % kCells != kOwnCell) REQUIRE(with_object[i] == codes[i]);
        }
        REQUIRE(codes[kOwnCell] == minigrid::kEmpty);
        REQUIRE((with_object[kOwnCell] == minigrid::kKey || with_object[kOwnCell] == minigrid::kBall));
        REQUIRE(with_object[kCells + kOwnCell] == minigrid::kGreen);
        ++objects_held[with_object[kOwnCell] == minigrid::kKey];
        const auto action = static_cast<std::int32_t>(random.below(7));
        for (VecEnv* const environment : {original.get(), spread.get(), full.get()}) step(*environment, action);
        REQUIRE(spread->reward_N()[0] == original->reward_N()[0]);
        REQUIRE(full->end_N()[0] == original->end_N()[0]);
      }
    }
    CHECK(objects_held[0] > 0);
    CHECK(objects_held[1] > 0);
  }
}

TEST_CASE("MiniGrid's Memory: the object is a cue once it was seen and while it is not") {
  MiniGridMemory::Options options;
  options.size = 13;
  options.observed.codes = minigrid::CodeBytes::kOriginal;
  const MiniGridMemory::Params params = MiniGridMemory::make_params(options, 1, Purpose::kTraining);
  options.full_state = true;
  const MiniGridMemory::Params full = MiniGridMemory::make_params(options, 1, Purpose::kTraining);
  Rng random(3, Purpose::kAction, 0, 0);
  int cues = 0, in_sight = 0, not_yet = 0;
  std::set<std::string> phases;
  for (std::uint32_t episode = 0; episode < 60; ++episode) {
    Rng rng(1, Purpose::kTest, 0, episode);
    MiniGridMemory::State state = MiniGridMemory::reset(params, rng);
    std::string object;
    for (End end = End::kNone;;) {
      Image image(3 * kCells + 1);  // with the direction
      MiniGridMemory::observe(params, state, image.data());
      const unsigned bit = minigrid::view_bit(state.agent, 1, 5);
      const int code = bit == minigrid::kOutOfView ? 0 : image[(6 - bit / 8) * 7 + bit % 8];
      if (code != 0) object = code == minigrid::kKey ? "key" : "ball";
      const auto cue = MiniGridMemory::cue(params, state);
      REQUIRE(cue.has_value() == (code == 0 && !object.empty()));
      if (cue) REQUIRE(cue->text == object);
      CHECK_FALSE(MiniGridMemory::cue(full, state));
      ++(cue ? cues : code != 0 ? in_sight : not_yet);

      phases.insert(MiniGridMemory::phase(params, state));
      Canvas canvas;
      MiniGridMemory::draw(params, state, canvas);
      int agents = 0, walls = 0;
      for (int x = 0; x < canvas.columns(); ++x)
        for (int y = 0; y < canvas.rows(); ++y) {
          agents += canvas.at(y, x) == Rgb{228, 148, 109};
          walls += canvas.at(y, x) == Rgb{25, 25, 25};
        }
      REQUIRE(agents == 1);
      REQUIRE(walls == 48 + 8 + 2 + 2 * 5 + 10);  // border, room and its door, hall, passage
      REQUIRE(canvas.at(state.agent.y, state.agent.x) == Rgb{228, 148, 109});
      REQUIRE(canvas.arrow());
      REQUIRE(canvas.arrow()->column == state.agent.x);
      REQUIRE(canvas.arrow()->row == state.agent.y);
      REQUIRE(static_cast<int>(canvas.arrow()->facing) == state.agent.direction);
      const Canvas seen = *MiniGridMemory::shown(params, image.data()).picture;
      REQUIRE(seen.at(seen.arrow()->row, seen.arrow()->column) == Rgb{228, 148, 109});
      REQUIRE(seen.arrow()->facing == Facing::kUp);
      if (cue) REQUIRE(canvas.at(5, 1) == cue->colour);
      if (end != End::kNone) break;
      end = MiniGridMemory::step(params, state, static_cast<int>(random.below(3)), rng).end;
    }
  }
  CHECK(cues > 100);
  CHECK(in_sight > 100);
  CHECK(not_yet > 100);
  CHECK(phases == std::set<std::string>{"room", "hall", "choice"});
}

TEST_CASE("MiniGrid's Memory: an episode without a choice is cut at its last step") {
  const auto environment = single_env("minigrid_memory", {{"size", "7"}});
  REQUIRE(environment->info().max_episode_steps == 245);
  for (int t = 0; t < 245; ++t) {
    REQUIRE(environment->end_N()[0] == End::kNone);
    step(*environment, t % 2 == 0 ? minigrid::kDone : minigrid::kDrop);
  }
  CHECK(environment->end_N()[0] == End::kTruncated);
  CHECK(environment->success_N()[0] == 0);
  CHECK(environment->decided(0) == false);
}

TEST_CASE("MiniGrid's Memory: an even size is refused by name") {
  TaskConfig task("minigrid_memory");
  OptionList options = task.options();
  options.set("task.size", "8");
  CHECK_THROWS_WITH_AS(task.check(), "task.size = '8' is not allowed; it takes an odd number 7..17", UserError);
}
