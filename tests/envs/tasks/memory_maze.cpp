// The memory maze: its mazes, and what is seen and paid in them, held against plain rules.
#include "envs/tasks/memory_maze.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "envs/shown_observation.h"
#include "envs/task_entry.h"
#include "envs/vec/vec_env.h"

using namespace engram;
using Maze = MemoryMaze;

namespace {

using Place = std::pair<int, int>;  // x, y
constexpr Place kAhead[] = {{1, 0}, {0, 1}, {-1, 0}, {0, -1}};

Place operator+(Place a, Place b) { return {a.first + b.first, a.second + b.second}; }
Place place_of(const maze::Cell& cell) { return {cell.x, cell.y}; }
Place place_of(const minigrid::Agent& agent) { return {agent.x, agent.y}; }

Maze::Params params_of(int size, bool full_state = false, int max_steps = 300) {
  Maze::Options options;
  options.size = size;
  options.objects = size / 2 - 1;
  options.max_steps = max_steps;
  options.max_rooms = size == 15 ? 9 : 6;
  options.max_room_size = size == 15 ? 3 : 5;
  options.full_state = full_state;
  check_options(options);
  return Maze::make_params(options, 1, Purpose::kTest);
}

Maze::State state_of(const Maze::Params& params, std::uint32_t episode) {
  Rng rng(1, Purpose::kTest, 0, episode);
  return Maze::reset(params, rng);
}

std::set<Place> floor_of(const Maze::Params& params, const Maze::State& state) {
  std::set<Place> floor;
  for (int y = 0; y < maze::kMaxSize + 2; ++y)
    for (int x = 0; x < maze::kMaxSize + 2; ++x) {
      if (!state.layout.is_floor(x, y)) continue;
      floor.insert({x, y});
      REQUIRE((x >= 1 && x <= params.size && y >= 1 && y <= params.size));
    }
  return floor;
}

// Steps from each cell of the floor to the place.
std::map<Place, int> distances_to(const std::set<Place>& floor, Place place) {
  std::map<Place, int> distance = {{place, 0}};
  std::queue<Place> open({place});
  for (; !open.empty(); open.pop())
    for (const Place& direction : kAhead) {
      const Place next = open.front() + direction;
      if (floor.contains(next) && distance.emplace(next, distance[open.front()] + 1).second) open.push(next);
    }
  return distance;
}

// An action on a shortest way to the place.
int towards(const std::set<Place>& floor, const minigrid::Agent& agent, Place place) {
  const std::map<Place, int> distance = distances_to(floor, place);
  const auto is_nearer = [&](int direction) {
    const Place next = place_of(agent) + kAhead[direction];
    return floor.contains(next) && distance.at(next) < distance.at(place_of(agent));
  };
  if (is_nearer(agent.direction)) return 2;
  return is_nearer((agent.direction + 3) % 4) ? 0 : 1;
}

using Image = std::vector<std::uint8_t>;
Image image_of(const Maze::Params& params, const Maze::State& state) {
  const auto shape = Maze::observation_shape(params);
  Image image(static_cast<std::size_t>(shape[0] * shape[1] * shape[2]));
  Maze::observe(params, state, image.data());
  return image;
}
Rgb at(const Image& image, int side, int row, int column) {
  const auto cells = static_cast<std::size_t>(side * side), cell = static_cast<std::size_t>(row * side + column);
  return {image[cell], image[cells + cell], image[2 * cells + cell]};
}

constexpr Rgb kObjects[] = {{197, 44, 35},   {115, 197, 102}, {45, 162, 252},
                            {108, 122, 231}, {255, 224, 68},  {255, 148, 124}};
constexpr Rgb kFloor{40, 45, 60}, kUnseen{0, 0, 0};

// MiniGrid's rule, cell by cell: light starts in the agent's cell and goes, from every lit cell that it passes, to the
// cells beside it, to the one ahead and to those beside that; row by row away from the agent.
std::array<std::array<bool, 7>, 7> lit_cells(const std::array<std::array<bool, 7>, 7>& clear) {  // [ahead][column]
  std::array<std::array<bool, 7>, 7> lit{};
  lit[0][3] = true;
  for (int f = 0; f < 7; ++f)
    for (const int way : {1, -1})
      for (int i = way == 1 ? 0 : 6; i + way >= 0 && i + way <= 6; i += way) {
        if (!lit[f][i] || !clear[f][i]) continue;
        lit[f][i + way] = true;
        if (f == 6) continue;
        lit[f + 1][i] = true;
        lit[f + 1][i + way] = true;
      }
  return lit;
}

}  // namespace

TEST_CASE("memory maze: mazes are of rooms, whole, without dead ends, and nearly all are different") {
  for (const int size : {9, 11, 13, 15}) {
    CAPTURE(size);
    const Maze::Params params = params_of(size);
    std::set<std::set<Place>> mazes;
    std::vector<int> floor_count(static_cast<std::size_t>((size + 2) * (size + 2)));
    constexpr int kMazes = 500;
    for (std::uint32_t episode = 0; episode < kMazes; ++episode) {
      const Maze::State state = state_of(params, episode);
      const std::set<Place> floor = floor_of(params, state);
      mazes.insert(floor);
      for (const auto& [x, y] : floor) ++floor_count[static_cast<std::size_t>(y * (size + 2) + x)];
      for (int x = 0; x < maze::kMaxSize + 2; ++x)
        for (int y = 0; y < maze::kMaxSize + 2; ++y)
          REQUIRE((state.layout.column[x] >> y & 1) == (state.layout.row[y] >> x & 1));
      REQUIRE(distances_to(floor, *floor.begin()).size() == floor.size());
      // In a room each cell has one beside and one above or below it; so have crossings and corners of passages.
      for (const Place& cell : floor) {
        int neighbours = 0;
        for (const Place& direction : kAhead) neighbours += floor.contains(cell + direction);
        REQUIRE(neighbours >= 2);
      }
      // Every object, and the agent, in a room: in one of the squares of 3 x 3 cells that are all floor.
      const auto in_room = [&](Place cell) {
        for (int left = cell.first - 2; left <= cell.first; ++left)
          for (int top = cell.second - 2; top <= cell.second; ++top) {
            bool whole = true;
            for (int i = 0; i < 9; ++i) whole &= floor.contains({left + i % 3, top + i / 3});
            if (whole) return true;
          }
        return false;
      };
      std::set<Place> taken = {place_of(state.agent)};
      REQUIRE(in_room(place_of(state.agent)));
      for (int i = 0; i < params.objects; ++i) {
        REQUIRE(taken.insert(place_of(state.object[i])).second);
        REQUIRE(in_room(place_of(state.object[i])));
      }
    }
    CHECK(mazes.size() >= kMazes * 98 / 100);
    // Any node may be floor and may be wall; cells between four nodes are floor in rooms alone.
    for (int y = 1; y <= size; ++y)
      for (int x = 1; x <= size; ++x) {
        const int count = floor_count[static_cast<std::size_t>(y * (size + 2) + x)];
        CHECK(count > 5);
        CHECK(count < kMazes);
      }
  }
}

TEST_CASE("memory maze: one in sixteen of the walls between rooms and passages is open beyond what joins them all") {
  for (const int size : {9, 11, 13, 15}) {
    CAPTURE(size);
    const int side = (size + 1) / 2;
    double walls = 0, open = 0;
    for (std::uint32_t episode = 0; episode < 500; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      const int least = size / 2 - 1;
      const maze::Rooms rooms = maze::draw_rooms(size, least, least + 2, size == 15 ? 3 : 5, rng);
      const maze::Layout layout = maze::draw_layout(size, rooms, rng);
      REQUIRE(rooms.count >= least);
      REQUIRE(rooms.count <= least + 2);
      // Rooms are one place each; so are nodes outside of them.
      std::map<Place, int> room_of;
      int places = side * side, within = 0;
      for (int i = 0; i < rooms.count; ++i) {
        const maze::Room& room = rooms.room[i];
        REQUIRE((room.x % 2 == 1 && room.y % 2 == 1 && room.width % 2 == 1 && room.height % 2 == 1));
        const int width = (room.width + 1) / 2, height = (room.height + 1) / 2;
        REQUIRE((width >= 2 && height >= 2 && room.width <= (size == 15 ? 3 : 5)));
        places -= width * height - 1;
        within += width * (height - 1) + height * (width - 1);
        for (int y = 0; y < room.height; ++y)
          for (int x = 0; x < room.width; ++x) {
            REQUIRE(layout.is_floor(room.x + x, room.y + y));
            REQUIRE(room_of.emplace(Place{room.x + x, room.y + y}, i).second);
          }
      }
      walls += 2 * side * (side - 1) - within - (places - 1);
      // Filling dead ends takes a place and a passage each time.
      int passages = 0, left = rooms.count;
      for (int y = 1; y <= size; ++y)
        for (int x = 1; x <= size; ++x) {
          if (!layout.is_floor(x, y) || room_of.contains({x, y})) continue;
          REQUIRE((x % 2 == 1 || y % 2 == 1));
          ++(x % 2 == 1 && y % 2 == 1 ? left : passages);
        }
      open += passages - (left - 1);
    }
    CHECK(std::abs(open - walls / 16) <= 5 * std::sqrt(walls / 16 * 15 / 16));
  }
}

TEST_CASE("memory maze: places, colours and directions at the start are drawn evenly") {
  const Maze::Params params = params_of(9);
  constexpr int kEpisodes = 6'000;
  std::array<int, 3> target{}, left{};
  std::array<int, 4> direction{};
  std::array<int, 27> bright{};
  for (std::uint32_t episode = 0; episode < kEpisodes; ++episode) {
    const Maze::State state = state_of(params, episode);
    ++target[state.target];
    ++direction[state.agent.direction];
    for (std::size_t i = 0; i < 3; ++i) left[i] += state.object[i].x < 5;
    for (std::size_t i = 0; i < 27; ++i) bright[i] += state.shades[0] >> i & 1;
  }
  const auto near = [](int count, double odds) {
    return std::abs(count - kEpisodes * odds) <= 5 * std::sqrt(kEpisodes * odds * (1 - odds));
  };
  for (const int count : target) CHECK(near(count, 1.0 / 3));
  for (const int count : direction) CHECK(near(count, 0.25));
  for (const int count : bright) CHECK(near(count, 0.5));
  // Mazes are as often as not mirrored, and no object has a side of its own.
  for (const int count : left) CHECK(std::abs(count - left[0]) <= 5 * std::sqrt(0.5 * kEpisodes));
}

TEST_CASE(
    "memory maze: the view is that of plain rules, in the wanted object's colour, and so is the maze from above") {
  for (const int size : {9, 15}) {
    const Maze::Params params = params_of(size), full = params_of(size, true);
    const int side = size + 2;
    Rng random(3, Purpose::kTest, 0, 0);
    int objects_seen = 0, hidden = 0;
    for (std::uint32_t episode = 0; episode < 30; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode);
      Maze::State state = Maze::reset(params, rng);
      const std::set<Place> floor = floor_of(params, state);
      std::set<int> known;
      for (int t = 0; t < 150; ++t) {
        const Image view = image_of(params, state), above = image_of(full, state);
        const Rgb wanted = kObjects[state.target];
        // From above.
        std::map<Place, Rgb> colours;
        for (int y = 0; y < side; ++y)
          for (int x = 0; x < side; ++x) {
            const Rgb colour = colours[{x, y}] = at(above, side, y, x);
            if (x == 0 || y == 0 || x == side - 1 || y == side - 1) {
              REQUIRE(colour == wanted);
              const int block = 3 * (3 * y / side) + 3 * x / side;
              const auto level = [&](int channel) -> std::uint8_t {
                return (state.shades[0] >> (9 * channel + block) & 1) != 0 ? 160 : 100;
              };
              colours[{x, y}] = {level(0), level(1), level(2)};  // what the border stands on
            } else if (place_of(state.agent) == Place{x, y}) {
              const auto up = static_cast<std::uint8_t>(255 - 60 * state.agent.direction);
              REQUIRE(colour == Rgb{up, 0, up});
              colours[{x, y}] = kFloor;
            }
          }
        for (int i = 0; i < params.objects; ++i) {
          const Place place = place_of(state.object[i]);
          if (place != place_of(state.agent)) REQUIRE(colours[place] == kObjects[i]);
          colours[place] = kObjects[i];
        }
        for (const auto& [place, colour] : colours)
          REQUIRE((colour.red == 100 || colour.red == 160) == !floor.contains(place));

        // What is ahead.
        const Place ahead = kAhead[state.agent.direction], right = kAhead[(state.agent.direction + 1) % 4];
        const auto cell = [&](int f, int i) {
          return Place{state.agent.x + f * ahead.first + (i - 3) * right.first,
                       state.agent.y + f * ahead.second + (i - 3) * right.second};
        };
        std::array<std::array<bool, 7>, 7> clear{};
        for (int f = 0; f < 7; ++f)
          for (int i = 0; i < 7; ++i) clear[f][i] = floor.contains(cell(f, i));
        const auto lit = lit_cells(clear);
        for (int f = 0; f < 7; ++f)
          for (int i = 0; i < 7; ++i) {
            const Rgb colour = at(view, 9, 7 - f, 1 + i);
            REQUIRE(colour == (lit[f][i] ? colours.at(cell(f, i)) : kUnseen));
            for (int object = 0; object < params.objects; ++object) {
              if (cell(f, i) != place_of(state.object[object])) continue;
              ++(lit[f][i] ? objects_seen : hidden);
              if (lit[f][i]) known.insert(object);
            }
          }
        for (int i = 0; i < 9; ++i)
          for (const Place& border : {Place{0, i}, Place{8, i}, Place{i, 0}, Place{i, 8}})
            REQUIRE(at(view, 9, border.first, border.second) == wanted);
        REQUIRE(Maze::phase(params, state) == (known.contains(state.target) ? "return" : "find"));

        const int action = episode % 2 == 0 ? static_cast<int>(random.below(3))
                                            : towards(floor, state.agent, place_of(state.object[state.target]));
        Maze::step(params, state, action, rng);
      }
    }
    CHECK(objects_seen > 500);
    CHECK(hidden > 200);
  }
}

TEST_CASE("memory maze: reaching the wanted object pays, another is wanted then, and time runs out") {
  for (const int size : {9, 13}) {
    const Maze::Params params = params_of(size, false, 1500);
    std::map<std::pair<int, int>, int> followed;
    int solved = 0;
    for (std::uint32_t episode = 0; episode < 20; ++episode) {
      Rng rng(1, Purpose::kTest, 0, episode), random(3, Purpose::kTest, 0, episode);
      Maze::State state = Maze::reset(params, rng);
      const std::set<Place> floor = floor_of(params, state);
      Place place = place_of(state.agent);
      int direction = state.agent.direction, reached = 0;
      std::map<int, int> times;
      for (int t = 1; t <= 1500; ++t) {
        const bool wanders = episode % 4 == 0 || random.below(8) == 0;
        const int target = state.target;
        const int action =
            wanders ? static_cast<int>(random.below(3)) : towards(floor, state.agent, place_of(state.object[target]));
        const Outcome outcome = Maze::step(params, state, action, rng);
        if (action == 0) direction = (direction + 3) % 4;
        if (action == 1) direction = (direction + 1) % 4;
        if (action == 2 && floor.contains(place + kAhead[direction])) place = place + kAhead[direction];
        REQUIRE(place_of(state.agent) == place);
        REQUIRE(state.agent.direction == direction);
        const bool touches = place == place_of(state.object[target]);
        REQUIRE(outcome.reward == (touches ? 1.0f : 0.0f));
        REQUIRE((state.target != target) == touches);
        REQUIRE(state.target < params.objects);
        if (touches) {
          ++followed[{target, state.target}];
          ++times[target];
          ++reached;
        }
        bool all = true;
        for (int i = 0; i < params.objects; ++i) all &= times[i] >= 5;
        REQUIRE(Maze::success(params, state) == all);
        REQUIRE(state.reached == reached);
        REQUIRE(outcome.end == (t == 1500 ? End::kTruncated : End::kNone));
      }
      solved += Maze::success(params, state);
    }
    CHECK(solved == 15);  // not those that wander
    int most = 0, least = 1'000'000, total = 0;
    for (int target = 0; target < params.objects; ++target)
      for (int next = 0; next < params.objects; ++next) {
        if (target == next) continue;
        const int count = followed[{target, next}];
        most = std::max(most, count);
        least = std::min(least, count);
        total += count;
      }
    CHECK(total > 500);
    CHECK(most - least < 5 * std::sqrt(total / (params.objects * (params.objects - 1.0))));
  }
}

TEST_CASE("memory maze: walking at random solves nothing") {
  const auto environment = make_cpu_vec_env(TaskConfig::from_preset("memory_maze_9x9"), 1, Purpose::kTest, 1, 1);
  Rng random(1, Purpose::kTest, 0, 0);
  for (std::uint32_t episode = 0; episode < 50; ++episode) {
    for (environment->reset_all(episode); environment->end_N()[0] == End::kNone;)
      environment->step_row(0, static_cast<std::int32_t>(random.below(3)));
    CHECK(environment->success_N()[0] == 0);
  }
}

TEST_CASE("memory maze: drawn is the maze from above, and what the agent sees of it") {
  const Maze::Params params = params_of(9);
  for (std::uint32_t episode = 0; episode < 20; ++episode) {
    const Maze::State state = state_of(params, episode);
    Canvas canvas;
    Maze::draw(params, state, canvas);
    REQUIRE(canvas.rows() == 11);
    CHECK(canvas.at(0, 5) == kObjects[state.target]);
    const auto shade = static_cast<std::uint8_t>(255 - 60 * state.agent.direction);
    CHECK(canvas.at(state.agent.y, state.agent.x) == Rgb{shade, 0, shade});
    // The arrow points to the cell that a step forward leads to.
    REQUIRE(canvas.arrow());
    CHECK(canvas.at(canvas.arrow()->row, canvas.arrow()->column) == Rgb{shade, 0, shade});
    const minigrid::Cell front = minigrid::front_of(state.agent);
    const int right = front.x - state.agent.x, down = front.y - state.agent.y;
    CHECK(canvas.arrow()->facing == (right > 0   ? Facing::kRight
                                     : down > 0  ? Facing::kDown
                                     : right < 0 ? Facing::kLeft
                                                 : Facing::kUp));
    const Image view = image_of(params, state);
    const std::set<Place> floor = floor_of(params, state);
    int seen = 0, bright = 0;
    for (int row = 1; row < 8; ++row)
      for (int column = 1; column < 8; ++column) seen += at(view, 9, row, column) == kFloor;
    for (const auto& [x, y] : floor) bright += canvas.at(y, x) == Rgb{205, 210, 225};
    CHECK(bright == seen - 1);  // the agent stands on one
    for (int i = 0; i < params.objects; ++i) CHECK(canvas.at(state.object[i].y, state.object[i].x) == kObjects[i]);
  }
}

TEST_CASE("memory maze: what is seen is shown with an arrow on the agent, all else as it is") {
  for (const bool full_state : {false, true}) {
    CAPTURE(full_state);
    TaskConfig task("memory_maze");
    task.options().set("task.full_state", full_state ? "true" : "false");
    const auto environment = make_cpu_vec_env(task, 2, Purpose::kTest, 1, 1);
    for (std::uint32_t episode = 0; episode < 8; ++episode) {
      environment->reset_all(episode);
      Canvas board;
      environment->draw(0, board);
      const Canvas seen = *show_observation(task, environment->observation_N()).picture;
      const Canvas raw = *first_image(environment->info().observation, environment->observation_N());
      REQUIRE(seen.rows() == raw.rows());
      for (int row = 0; row < raw.rows(); ++row)
        for (int column = 0; column < raw.columns(); ++column) REQUIRE(seen.at(row, column) == raw.at(row, column));
      REQUIRE(seen.arrow());
      const Canvas::Arrow expected = full_state ? *board.arrow() : Canvas::Arrow{7, 4, Facing::kUp};
      CHECK(seen.arrow()->row == expected.row);
      CHECK(seen.arrow()->column == expected.column);
      CHECK(seen.arrow()->facing == expected.facing);
    }
  }
}

TEST_CASE("memory maze: sizes that contradict each other are refused") {
  const auto refused = [](const std::vector<std::pair<std::string, std::string>>& values) -> std::string {
    TaskConfig task("memory_maze");
    OptionList options = task.options();
    for (const auto& [key, value] : values) options.set("task." + key, value);
    try {
      task.check();
    } catch (const UserError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(refused({}) == "");
  CHECK(refused({{"size", "10"}}) == "task.size = '10' is not allowed; it takes an odd number 9..15");
  CHECK(refused({{"max_room_size", "4"}}) == "task.max_room_size = '4' is not allowed; it takes 3 or 5");
  CHECK(refused({{"objects", "4"}}) == "task.objects = '4' is not allowed; it takes 2..3 in a maze of size 9");
  CHECK(refused({{"max_rooms", "2"}}) == "task.max_rooms = '2' is not allowed; it takes no fewer than the 3 objects");
  CHECK(refused({{"objects", "6"}, {"size", "15"}}) == "");
}
