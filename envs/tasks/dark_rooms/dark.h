// What the dark rooms share (dark_room.h, dark_key_to_door.h): attempts at one hidden place, over and over, in an
// episode of a fixed number of steps; so what an attempt found out is worth remembering for the next.
//
// Source: Laskin et al., "In-context reinforcement learning with algorithm distillation", ICLR 2023, in the form of
// AMAGO's RoomKeyDoor (Grigsby et al., "AMAGO: Scalable in-context reinforcement learning for adaptive agents", ICLR
// 2024). Row x and column y of cells count from 0. An attempt that is over takes one step more, whose action does
// nothing but return the agent to the start.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <vector>

#include "base/host_device.h"
#include "envs/task.h"

namespace engram::dark {

inline constexpr const char* kSource =
    "Laskin et al., In-context reinforcement learning with algorithm distillation, ICLR 2023, as in Grigsby et al., "
    "AMAGO, ICLR 2024";
inline constexpr const char* kChanceSource =
    "nothing is guessed: walking at random solves less than one episode in a hundred at the published sizes";
inline constexpr int kActions = 5;
inline constexpr const char* kActionNames[] = {"left", "up", "right", "down", "stay"};
inline constexpr int kMaxSize = 64;

struct Cell {
  std::uint8_t x, y;
  friend constexpr bool operator==(const Cell&, const Cell&) = default;
};

// The options of both. `size` and below: see list().
struct RoomOptions {
  int size = 9;
  int attempt_steps = 50;
  int max_steps = 500;
  bool random_start = true;
  bool random_actions = false;
  bool full_state = false;

  void list(OptionList& list);
};

struct Room {
  std::int32_t size, attempt_steps, max_steps;
  bool random_start, random_actions, full_state;
};
Room room_of(const RoomOptions& options);

// Direction of each action, 0 .. kActions - 1 as named in kActionNames, three bits each.
inline constexpr std::uint16_t kNamedDirections = 0 | 1 << 3 | 2 << 6 | 3 << 9 | 4 << 12;

// The agent and how its attempts went.
struct Attempts {
  std::int32_t t;          // steps of the episode
  std::int32_t attempt_t;  // and of the attempt
  std::uint16_t directions;
  Cell start, player;
  bool over;    // this attempt is
  bool found;   // this attempt has found what it looks for
  bool known;   // an earlier attempt had
  bool again;   // one after that has, too
  bool missed;  // one after that has not
};

HOST_DEVICE inline Cell random_cell(const Room& room, Rng& rng) {
  const auto size = static_cast<std::uint32_t>(room.size);
  const std::uint32_t x = rng.below(size);
  return {static_cast<std::uint8_t>(x), static_cast<std::uint8_t>(rng.below(size))};
}
HOST_DEVICE inline Attempts begin(Cell start, std::uint16_t directions) {
  Attempts attempts{};
  attempts.directions = directions;
  attempts.start = attempts.player = start;
  return attempts;
}
// Draws the start and the directions, if these are random.
HOST_DEVICE inline Attempts begin_random(const Room& room, Rng& rng) {
  const auto middle = static_cast<std::uint8_t>(room.size / 2);
  const Cell start = room.random_start ? random_cell(room, rng) : Cell{middle, middle};
  std::uint16_t directions = kNamedDirections;
  if (room.random_actions)  // Fisher and Yates
    for (int i = kActions - 1; i > 0; --i) {
      const int other = static_cast<int>(rng.below(static_cast<std::uint32_t>(i + 1)));
      const int differs = (directions >> 3 * i ^ directions >> 3 * other) & 7;
      directions = static_cast<std::uint16_t>(directions ^ differs << 3 * i ^ differs << 3 * other);
    }
  return begin(start, directions);
}

HOST_DEVICE inline int direction_of(const Attempts& attempts, int action) {
  return attempts.directions >> 3 * action & 7;
}
HOST_DEVICE inline int x_of(int direction) { return (direction == 3) - (direction == 1); }
HOST_DEVICE inline int y_of(int direction) { return (direction == 2) - (direction == 0); }

// The first half of a step: false where it returned the agent to the start for the next attempt, else the agent has
// moved.
HOST_DEVICE inline bool move(const Room& room, Attempts& attempts, int action) {
  ++attempts.t;
  if (attempts.over) {
    attempts.player = attempts.start;
    attempts.attempt_t = 0;
    attempts.over = attempts.found = false;
    return false;
  }
  ++attempts.attempt_t;
  const int direction = direction_of(attempts, action), last = room.size - 1;
  const auto within = [last](int place) {
    return static_cast<std::uint8_t>(place < 0 ? 0 : place > last ? last : place);
  };
  attempts.player = {within(attempts.player.x + x_of(direction)), within(attempts.player.y + y_of(direction))};
  return true;
}
// The second half of a step that moved: `found` is up to date, and `ends` says whether the attempt does.
HOST_DEVICE inline void conclude(Attempts& attempts, bool ends) {
  if (!ends) return;
  attempts.over = true;
  attempts.again |= attempts.known && attempts.found;
  attempts.missed |= attempts.known && !attempts.found;
  attempts.known |= attempts.found;
}
HOST_DEVICE inline bool out_of_time(const Room& room, const Attempts& attempts) {
  return attempts.attempt_t >= room.attempt_steps;
}
HOST_DEVICE inline End end_of(const Room& room, const Attempts& attempts) {
  return attempts.t >= room.max_steps ? End::kTerminated : End::kNone;
}
// Once an attempt had found the place, every further one that came to its end found it, and there was one.
HOST_DEVICE inline bool success(const Attempts& attempts) { return attempts.again && !attempts.missed; }

// A share of the size or of the time, rounded once, from the reference's double.
HOST_DEVICE inline float share(int number, int of) { return static_cast<float>(static_cast<double>(number) / of); }

// Observation, the first four: row and column of the agent as shares of the size, a bit, the share of the attempt's
// time. Returns how many were written.
inline constexpr int kBase = 4;
HOST_DEVICE inline int observe(const Room& room, const Attempts& attempts, bool bit, float* out) {
  out[0] = share(attempts.player.x, room.size);
  out[1] = share(attempts.player.y, room.size);
  out[2] = bit ? 1.0f : 0.0f;
  out[3] = share(attempts.attempt_t, room.attempt_steps);
  return kBase;
}
// With full_state, behind the hidden cells: how each action moves x and y, where that is random.
HOST_DEVICE inline void observe_directions(const Room& room, const Attempts& attempts, float* out) {
  if (!room.random_actions) return;
  for (int action = 0; action < kActions; ++action) {
    out[2 * action] = static_cast<float>(x_of(direction_of(attempts, action)));
    out[2 * action + 1] = static_cast<float>(y_of(direction_of(attempts, action)));
  }
}
inline int elements(const Room& room, int hidden_cells) {
  return kBase + (room.full_state ? 2 * hidden_cells + (room.random_actions ? 2 * kActions : 0) : 0);
}

// "explore" until the place has been found in the episode, "exploit" afterwards.
std::string phase(const Attempts& attempts);

// Of a vector with this bit and these hidden things.
std::vector<VectorPart> vector_parts(const Room& room, const char* bit, std::initializer_list<const char*> hidden);

// What both tasks say of themselves, and what their parameters and states begin with.
struct Game {
  static constexpr const char* kSource = dark::kSource;
  static constexpr int kNumActions = kActions;
  static constexpr const auto& kActionNames = dark::kActionNames;
  static constexpr std::optional<double> kChanceSuccess = std::nullopt;
  static constexpr const char* kChanceSource = dark::kChanceSource;
  using Element = float;

  struct Params {
    Room room;
  };
  struct State {
    Attempts attempts;
  };

  static int max_episode_steps(const Params& params) { return params.room.max_steps; }
  HOST_DEVICE static bool success(const Params&, const State& state) { return dark::success(state.attempts); }
  static std::string phase(const Params&, const State& state) { return dark::phase(state.attempts); }
};

// The floor and the start, on which a task puts its own.
inline constexpr Rgb kFloor{204, 204, 204}, kStart{170, 170, 200}, kPlayer{228, 148, 109};
std::vector<ColourMeaning> room_colours();
void draw_room(const Room& room, const Attempts& attempts, Canvas& canvas);

}  // namespace engram::dark
