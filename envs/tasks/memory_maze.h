// Memory maze: a new maze of rooms each episode, with coloured objects; walk to the one whose colour is asked for, over
// and over.
//
// engram's own, a grid after Pasukonis, Lillicrap and Hafner, "Evaluating long-term memory in 3D mazes", ICLR 2023
// (Memory Maze), which is a simulation in three dimensions. Cells are counted from 0, the outer wall included: x to the
// right, y down. Observation: [3, 9, 9] uint8, red, green and blue of the 7 x 7 cells ahead, the farthest row first,
// the agent in the middle of the nearest one; black is what walls hide; around it a border of the wanted object's
// colour. With full_state: [3, S + 2, S + 2], the maze of S x S cells from above, nothing hidden, in the same border.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "envs/tasks/maze_layout.h"
#include "envs/tasks/minigrid/minigrid_view.h"

namespace engram {

struct MemoryMaze {
  static constexpr const char* kName = "memory_maze";
  static constexpr const char* kDescription =
      "a new maze each episode; walk to the objects whose colours are asked for";
  static constexpr const char* kMemoryDemand = "a maze and what is where";
  static constexpr const char* kSource =
      "after Pasukonis, Lillicrap and Hafner, Evaluating long-term memory in 3D mazes, ICLR 2023 (Memory Maze)";
  static constexpr int kNumActions = 3;
  static constexpr const char* kActionNames[] = {"left", "right", "forward"};
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource =
      "nothing is guessed: walking at random solves none of a thousand episodes at the published sizes";
  static constexpr int kMaxObjects = 6, kEnough = 5;
  static constexpr int kImage = minigrid::kView + 2;  // side of the observation

  struct Options : TaskOptions<MemoryMaze> {
    int size = 9;
    int objects = 3;
    int max_steps = 1000;
    int max_rooms = 6;
    int max_room_size = 5;

    void list_options(OptionList& list);
    void check() const;
  };

  struct Params {
    std::int32_t size, objects, max_steps, max_rooms, max_room_size;
    bool full_state;
  };

  struct State {
    std::uint64_t seen, floor;  // what the agent sees: bits as in minigrid::View
    maze::Layout layout;
    // Which walls are bright, by thirds of the maze: bit 9 channel + 3 j + i of shades[0] for those in third i of x and
    // j of y, and of shades[1] for those in third j of x and i of y.
    std::uint32_t shades[2];
    std::int32_t t;        // steps so far
    std::int32_t reached;  // targets so far
    maze::Cell object[kMaxObjects];
    std::uint8_t times[kMaxObjects];  // that it was reached as the target; no more than kEnough are counted
    std::uint8_t known;               // bit i: object i was in sight already
    std::uint8_t target;
    minigrid::Agent agent;
  };

  using Element = std::uint8_t;

  static Params make_params(const Options& options, std::uint64_t seed, Purpose purpose);
  static std::vector<std::int64_t> observation_shape(const Params& params) {
    const std::int64_t side = params.full_state ? params.size + 2 : kImage;
    return {3, side, side};
  }
  static int max_episode_steps(const Params& params) { return params.max_steps; }

  HOST_DEVICE static State reset(const Params& params, Rng& rng) {
    State state{};
    maze::Rooms rooms = maze::draw_rooms(params.size, params.objects, params.max_rooms, params.max_room_size, rng);
    state.layout = maze::draw_layout(params.size, rooms, rng);
    state.shades[0] = rng.next() & ((1u << 27) - 1);
    for (int bit = 0; bit < 27; ++bit)
      state.shades[1] |= (state.shades[0] >> bit & 1) << (bit / 9 * 9 + bit % 3 * 3 + bit % 9 / 3);
    // The rooms drawn first are the largest and lie anywhere: shuffled, so that no object gets them always.
    for (int i = rooms.count - 1; i > 0; --i) {
      const int other = minigrid::below(i + 1, rng);
      const maze::Room room = rooms.room[i];
      rooms.room[i] = rooms.room[other];
      rooms.room[other] = room;
    }
    for (int i = 0; i < params.objects; ++i) state.object[i] = maze::draw_cell(rooms.room[i], rng);
    maze::Cell start{};
    do start = maze::draw_cell(rooms.room[minigrid::below(rooms.count, rng)], rng);
    while (object_at(params, state, start) != kNone);
    state.agent = {start.x, start.y, static_cast<std::uint8_t>(minigrid::below(4, rng))};
    state.target = static_cast<std::uint8_t>(minigrid::below(params.objects, rng));
    look(params, state);
    return state;
  }

  HOST_DEVICE static Outcome step(const Params& params, State& state, int action, Rng& rng) {
    ++state.t;
    const minigrid::Cell front = minigrid::front_of(state.agent);
    minigrid::walk(state.agent, action, front, state.layout.is_floor(front.x, front.y));
    look(params, state);
    float reward = 0;
    if (object_at(params, state, {state.agent.x, state.agent.y}) == state.target) {
      reward = 1;
      ++state.reached;
      std::uint8_t& times = state.times[state.target];
      times = static_cast<std::uint8_t>(times + (times < kEnough));
      const int next = minigrid::below(params.objects - 1, rng);  // another one
      state.target = static_cast<std::uint8_t>(next + (next >= state.target));
    }
    return {reward, state.t < params.max_steps ? End::kNone : End::kTruncated};
  }

  // Every object was reached as the target kEnough times.
  HOST_DEVICE static bool success(const Params& params, const State& state) {
    bool all = true;
    for (int i = 0; i < params.objects; ++i) all &= state.times[i] >= kEnough;
    return all;
  }

  HOST_DEVICE static void observe(const Params& params, const State& state, Element* out) {
    if (params.full_state)
      show_all(params, state, out);
    else
      show_view(params, state, out);
  }

  // The maze from above in a border of the wanted colour, an arrow on the agent; floor that it sees is bright.
  static void draw(const Params& params, const State& state, Canvas& canvas);
  static std::vector<ColourMeaning> colours(const Params& params);
  // "find": the wanted object was not in sight yet; "return": it was.
  static std::string phase(const Params& params, const State& state);
  static ShownObservation shown(const Params& params, const Element* observation);
  static std::vector<TaskPreset> presets();

 private:
  static constexpr int kNone = 255;

  // Those of the original.
  HOST_DEVICE static constexpr Rgb object_colour(int object) {
    constexpr Rgb kColours[kMaxObjects] = {{197, 44, 35},   {115, 197, 102}, {45, 162, 252},
                                           {108, 122, 231}, {255, 224, 68},  {255, 148, 124}};
    return kColours[object];
  }
  HOST_DEVICE static constexpr Rgb floor_colour() { return {40, 45, 60}; }
  // Of the wall in the cell (x, y), the same for all of its block: each channel is dark or bright.
  static constexpr std::uint8_t kDark = 100, kBright = 160;
  HOST_DEVICE static Rgb wall_colour(const Params& params, const State& state, int x, int y) {
    const int block = 3 * third_of(params, y) + third_of(params, x);
    const auto level = [&](int channel) {
      return (state.shades[0] >> (9 * channel + block) & 1) != 0 ? kBright : kDark;
    };
    return {level(0), level(1), level(2)};
  }
  // In which third of the maze a coordinate lies, 0, 1 or 2; where the second and the third begin.
  HOST_DEVICE static int second_third(const Params& params) { return (params.size + 4) / 3; }
  HOST_DEVICE static int last_third(const Params& params) { return (2 * params.size + 6) / 3; }
  HOST_DEVICE static int third_of(const Params& params, int place) {
    return (place >= second_third(params)) + (place >= last_third(params));
  }
  // Its colour tells the direction.
  HOST_DEVICE static constexpr Rgb agent_colour(int direction) {
    const auto up = static_cast<std::uint8_t>(255 - 60 * direction);
    return {up, 0, up};
  }

  // The object in the cell, kNone for none.
  HOST_DEVICE static int object_at(const Params& params, const State& state, maze::Cell cell) {
    int found = kNone;
    for (int i = 0; i < params.objects; ++i)
      if (state.object[i] == cell) found = i;
    return found;
  }

  // Light falls from cell to cell of the floor, as in MiniGrid; objects do not stop it.
  HOST_DEVICE static void look(const Params& params, State& state) {
    state.floor = state.layout.ahead_of(state.agent);
    state.seen = 0;
    unsigned lit = 1u << minigrid::kAside;
    for (int f = 0; f < minigrid::kView; ++f) {
      const unsigned clear = static_cast<unsigned>(state.floor >> 8 * f) & ((1u << minigrid::kView) - 1);
#if defined(__CUDA_ARCH__)
      const unsigned spread = minigrid::spread_light(lit, clear);
#else
      const unsigned spread = minigrid::kSpreadLight[lit << minigrid::kView | clear];
#endif
      state.seen |= std::uint64_t{lit | spread} << 8 * f;
      lit = spread;
    }
    for (int i = 0; i < params.objects; ++i)
      state.known = static_cast<std::uint8_t>(state.known | sees(state, state.object[i]) << i);
  }
  HOST_DEVICE static bool sees(const State& state, maze::Cell cell) {
    return (state.seen >> minigrid::view_bit(state.agent, cell.x, cell.y) & 1) != 0;
  }

  // Three planes of `cells` bytes.
  HOST_DEVICE static void put(Element* out, int cells, int cell, Rgb colour) {
    out[cell] = colour.red;
    out[cells + cell] = colour.green;
    out[2 * cells + cell] = colour.blue;
  }
  HOST_DEVICE static void fill(Element* out, int cells, Rgb colour) {
    memset(out, colour.red, static_cast<std::size_t>(cells));
    memset(out + cells, colour.green, static_cast<std::size_t>(cells));
    memset(out + 2 * cells, colour.blue, static_cast<std::size_t>(cells));
  }

  HOST_DEVICE static void show_view(const Params& params, const State& state, Element* out) {
    constexpr int kView = minigrid::kView, kCells = kImage * kImage;
    constexpr unsigned kRow = (1u << kView) - 1;
    const Rgb border = object_colour(state.target);
    fill(out, kCells, border);

    const minigrid::Agent agent = state.agent;
    const bool along_x = agent.direction % 2 == 0;
    const int from = along_x ? agent.x : agent.y, at = along_x ? agent.y : agent.x;
    const int ahead = agent.direction < 2 ? 1 : -1;
    const bool reversed = agent.direction == 1 || agent.direction == 2;  // to the right the coordinate decreases
    // The view's columns whose coordinate is `place` or more.
    const auto columns_from = [&](int place) {
      const int off = reversed ? at - place + 1 + minigrid::kAside : place - at + minigrid::kAside;
      const unsigned before = (1u << (off < 0 ? 0 : off > kView ? kView : off)) - 1;
      return std::uint64_t{before ^ (reversed ? 0 : kRow)};
    };
    const int second = second_third(params), last = last_third(params);
    const std::uint64_t beyond_first = columns_from(second), beyond_second = columns_from(last);
    // Byte s: the columns in those thirds of which the bits are set in s = 0 .. 7.
    const std::uint64_t columns_of = (~beyond_first & kRow) * 0x0100010001000100u |
                                     (beyond_first & ~beyond_second) * 0x0101000001010000u |
                                     beyond_second * 0x0101010100000000u;
    const std::uint32_t shades = state.shades[along_x ? 1 : 0];

    // Seven bits as bytes of 0 and 1; a row of the image is written with the border to its right.
    const auto bytes_of = [](std::uint64_t bits) { return (bits & kRow) * 0x0002040810204081u & 0x0101010101010101u; };
    for (int f = 0; f < kView; ++f) {
      const auto seen = static_cast<unsigned>(state.seen >> 8 * f) & kRow;
      const auto floor = seen & static_cast<unsigned>(state.floor >> 8 * f), wall = seen & ~floor;
      const int place = from + ahead * f, third = (place >= second) + (place >= last);
      const std::uint64_t floors = bytes_of(floor), walls = bytes_of(wall) * kDark;
      const auto write = [&](int channel, std::uint8_t of_floor, std::uint8_t of_border) {
        const std::uint64_t bright = columns_of >> 8 * (shades >> (9 * channel + 3 * third) & 7);
        const std::uint64_t row =
            floors * of_floor + walls + bytes_of(wall & bright) * (kBright - kDark) + (std::uint64_t{of_border} << 56);
        memcpy(out + channel * kCells + image_cell(8 * f), &row, 8);
      };
      write(0, floor_colour().red, border.red);
      write(1, floor_colour().green, border.green);
      write(2, floor_colour().blue, border.blue);
    }
    for (int i = 0; i < params.objects; ++i)
      if (sees(state, state.object[i]))
        put(out, kCells, image_cell(static_cast<int>(minigrid::view_bit(agent, state.object[i].x, state.object[i].y))),
            object_colour(i));
  }
  // Where a bit of the view stands in the image.
  HOST_DEVICE static constexpr int image_cell(int bit) { return (minigrid::kView - bit / 8) * kImage + 1 + bit % 8; }

  HOST_DEVICE static void show_all(const Params& params, const State& state, Element* out) {
    const int side = params.size + 2, cells = side * side;
    fill(out, cells, object_colour(state.target));
    for (int y = 1; y <= params.size; ++y)
      for (int x = 1; x <= params.size; ++x)
        put(out, cells, y * side + x, state.layout.is_floor(x, y) ? floor_colour() : wall_colour(params, state, x, y));
    for (int i = 0; i < params.objects; ++i)
      put(out, cells, state.object[i].y * side + state.object[i].x, object_colour(i));
    put(out, cells, state.agent.y * side + state.agent.x, agent_colour(state.agent.direction));
  }
};

static_assert(GridTask<MemoryMaze>);

}  // namespace engram
